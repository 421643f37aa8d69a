package graph

import (
	"errors"
	"fmt"

	"qwb/graph/tensor"
)

// ErrTypeConflict is wrapped by the errors of InferShapes that report a recorded type which differs from the inferred one.
var ErrTypeConflict = errors.New("recorded type differs from the inferred one")

// InferShapes infers the element type and the shape of all values of g and of its subgraphs. It starts from graph inputs and
// constants, goes through all nodes, and follows the elements of shape computations (Shape, Gather, Concat, ... Reshape).
// Symbolic dimensions stay symbolic; a dimension that depends on one is symbolic or unknown. Types that the graph records
// (value_info) are used only where nothing follows from the inputs.
//
// Errors are *NodeError: nodes with inputs that no execution would accept, values too large to exist, and recorded types that
// were wrong and have been replaced (these wrap ErrTypeConflict). An unknown operator is no error: its outputs keep the types
// that were recorded.
func InferShapes(g *Graph) []error {
	var errs []error
	newInferrer(g, nil, &errs).run()
	return errs
}

// inferrer infers one graph. parent is that of the enclosing graph.
type inferrer struct {
	g      *Graph
	parent *inferrer
	found  []InferOutput // by ValueID: the elements that are known; types are in the graph itself
	errs   *[]error
}

func newInferrer(g *Graph, parent *inferrer, errs *[]error) *inferrer {
	return &inferrer{g: g, parent: parent, found: make([]InferOutput, g.NumValues()), errs: errs}
}

func (r *inferrer) run() {
	for i := range r.g.values {
		v := &r.g.values[i]
		if v.Outer && !v.dead {
			if in := r.outer(v.Name); in.Present {
				v.DType, v.Shape = in.DType, in.Shape
			}
		}
		if _, err := v.Shape.Elements(); err != nil && v.producer == NoNode && !v.dead {
			*r.errs = append(*r.errs, fmt.Errorf("value %q: %w", v.Name, err))
			v.Shape = nil
		}
	}
	order, err := r.g.Order()
	if err != nil {
		*r.errs = append(*r.errs, err)
		return
	}
	for _, id := range order {
		if err := r.node(id); err != nil {
			*r.errs = append(*r.errs, r.g.ErrorAt("infer shapes", id, err))
		}
	}
}

// input gathers what is known of value v.
func (r *inferrer) input(id ValueID) InferInput {
	if id == NoValue {
		return InferInput{}
	}
	v := &r.g.values[id]
	if v.Outer {
		if in := r.outer(v.Name); in.Present {
			return in
		}
	}
	in := InferInput{Present: true, DType: v.DType, Shape: v.Shape, Tensor: v.Const, ints: r.found[id].ints}
	if in.Tensor == nil {
		in.Tensor = r.found[id].tensor
	}
	return in
}

// outer looks name up in the enclosing graphs.
func (r *inferrer) outer(name string) InferInput {
	for p := r.parent; p != nil; p = p.parent {
		if id, ok := p.g.byName[name]; ok && !p.g.values[id].Outer {
			return p.input(id)
		}
	}
	return InferInput{}
}

func (r *inferrer) node(id NodeID) error {
	n := &r.g.nodes[id]
	s := n.Spec()
	if s == nil || s.Infer == nil {
		return nil
	}
	c := &InferCtx{Node: n, Opset: r.g.Opset(n.Domain), in: make([]InferInput, len(n.Inputs)),
		out: make([]InferOutput, len(n.Outputs)), sub: r.body}
	for i, v := range n.Inputs {
		c.in[i] = r.input(v)
	}
	if err := s.infer(c); err != nil {
		return err
	}
	var conflict error
	for i, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		if err := r.g.values[v].refine(c.out[i]); err != nil && conflict == nil {
			conflict = err
		}
		r.found[v] = c.out[i]
	}
	return conflict
}

// refine gives v the inferred type; what inference leaves open keeps what was recorded.
func (v *Value) refine(o InferOutput) error {
	was := FormatType(v.DType, v.Shape)
	conflict := false
	if o.DType != tensor.Undefined {
		conflict = v.DType != tensor.Undefined && v.DType != o.DType
		v.DType = o.DType
	}
	switch {
	case o.Shape == nil:
	case len(v.Shape) != len(o.Shape) || v.Shape == nil:
		conflict = conflict || v.Shape != nil
		v.Shape = o.Shape
	default:
		shape := make(Shape, len(o.Shape))
		for i, d := range o.Shape {
			merged, ok := mergeDim(d, v.Shape[i])
			conflict = conflict || !ok
			shape[i] = merged
			if d.Symbol != "" {
				shape[i] = d
			}
		}
		v.Shape = shape
	}
	if conflict {
		return fmt.Errorf("output %q: %w: %s, not %s", v.Name, ErrTypeConflict, was, FormatType(v.DType, v.Shape))
	}
	return nil
}

// body infers a subgraph whose inputs are given (nil for If) and returns its outputs.
func (r *inferrer) body(g *Graph, in []InferInput) ([]InferOutput, error) {
	if in != nil && len(in) != len(g.Inputs) {
		return nil, fmt.Errorf("subgraph %q has %d inputs, not %d", g.Name, len(g.Inputs), len(in))
	}
	sub := newInferrer(g, r, r.errs)
	for i, v := range g.Inputs {
		if in == nil {
			break
		}
		if err := g.values[v].refine(InferOutput{DType: in[i].DType, Shape: in[i].Shape}); err != nil {
			*r.errs = append(*r.errs, fmt.Errorf("subgraph %q: %w", g.Name, err))
		}
	}
	sub.run()
	out := make([]InferOutput, len(g.Outputs))
	for i, v := range g.Outputs {
		res := sub.input(v)
		out[i] = InferOutput{DType: res.DType, Shape: res.Shape}
	}
	return out, nil
}
