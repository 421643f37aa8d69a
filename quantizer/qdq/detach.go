package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// nameCaptured gives dequantized tensors that bodies of If, Loop and Scan read by name an operator of their own that computes
// them, so that the name stays when the pairs go.
func (r *reader) nameCaptured() error {
	for _, id := range r.g.Nodes() {
		n := r.g.Node(id)
		if len(n.Outputs) == 0 || n.Outputs[0] == graph.NoValue || !r.g.Captured(n.Outputs[0]) {
			continue
		}
		switch v := n.Outputs[0]; {
		case isQuantize(n):
			return r.fail(id, "a body of another node reads its integers")
		case isDequantize(n):
			inner, err := r.g.AddValue(graph.Value{Name: r.g.FreshName(r.g.Value(v).Name + "_named"), DType: r.g.Value(v).DType,
				Shape: r.g.Value(v).Shape})
			if err != nil {
				return err
			}
			if err := r.g.SetOutput(id, 0, inner); err != nil {
				return err
			}
			if _, err := r.g.AddNode(graph.Node{Op: "Identity", Inputs: []graph.ValueID{inner}, Outputs: []graph.ValueID{v}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// detach makes every operator read what stands behind the pairs, and removes them.
func (r *reader) detach() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	var pairs []graph.NodeID
	for _, id := range order {
		n := r.g.Node(id)
		if isQuantize(n) || isDequantize(n) || isDynamic(n) || r.turned(id) {
			pairs = append(pairs, id)
			continue
		}
		if err := r.rewire(id); err != nil {
			return err
		}
	}
	if err := r.rewireOutputs(); err != nil {
		return err
	}
	if err := r.floatInputs(); err != nil {
		return err
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		n := r.g.Node(pairs[i])
		if (isQuantize(n) || isDynamic(n)) && r.g.Const(n.Inputs[0]) == nil {
			r.q.Pairs++
		}
		in := append([]graph.ValueID(nil), n.Inputs...)
		r.g.RemoveNode(pairs[i])
		for _, v := range in {
			if v != graph.NoValue && r.g.Const(v) != nil && len(r.g.Uses(v)) == 0 && !r.g.Captured(v) && !r.g.IsInput(v) {
				r.g.RemoveValue(v)
			}
		}
	}
	return r.nameOutputs()
}

// rewire makes a node read float tensors.
func (r *reader) rewire(id graph.NodeID) error {
	for i, v := range r.g.Node(id).Inputs {
		if v == graph.NoValue {
			continue
		}
		p := r.g.Producer(v)
		if p == graph.NoNode {
			continue
		}
		n, from := r.g.Node(id), r.g.Node(p)
		shapeOnly := n.Domain == "" && (n.Op == "Shape" || n.Op == "Size")
		if isQuantize(from) && !shapeOnly {
			return r.fail(id, "input %d: it computes with the integers of %q", i, from.Name)
		}
		follow := func() (link, error) { return r.follow(v) }
		switch {
		case r.turned(p):
			follow = func() (link, error) { return r.turn(p) }
		case !isQuantize(from) && !isDequantize(from):
			continue
		}
		l, err := follow()
		if err != nil {
			return err
		}
		r.g.SetInput(id, i, l.value)
		if !shapeOnly {
			r.q.reads[graph.Use{Node: id, Index: i}] = l.chain
		}
	}
	return nil
}

// rewireOutputs finds what stands behind the graph's outputs.
func (r *reader) rewireOutputs() error {
	r.q.outputs = make([][]*grid, len(r.g.Outputs))
	for k, v := range r.g.Outputs {
		p := r.g.Producer(v)
		if p == graph.NoNode {
			continue
		}
		n := r.g.Node(p)
		if !isQuantize(n) && !isDequantize(n) {
			continue
		}
		l, err := r.follow(v)
		if err != nil {
			return err
		}
		if isQuantize(n) {
			r.q.Warnings = append(r.q.Warnings,
				tqc.Warning{Text: fmt.Sprintf("output %q of the file is integers; here it is the numbers they stand for",
					r.g.Value(v).Name)})
		}
		// An operator of its own carries name and grids until it is known who else reads the tensor.
		out, err := r.g.AddValue(graph.Value{Name: r.g.FreshName(r.g.Value(v).Name + "_output"), DType: tensor.Float32,
			Shape: r.g.Value(l.value).Shape})
		if err != nil {
			return err
		}
		id, err := r.g.AddNode(graph.Node{Op: "Identity", Inputs: []graph.ValueID{l.value}, Outputs: []graph.ValueID{out}})
		if err != nil {
			return err
		}
		r.q.reads[graph.Use{Node: id, Index: 0}] = l.chain
		r.g.Outputs[k] = out
		r.names = append(r.names, named{id, k, r.g.Value(v).Name})
	}
	return nil
}

// named is an Identity that stands for graph output k, whose name is still that of a dequantized tensor.
type named struct {
	node graph.NodeID
	k    int
	name string
}

// floatInputs turns graph inputs that were integers into the numbers they stand for.
func (r *reader) floatInputs() error {
	for _, v := range r.g.Inputs {
		val := r.g.Value(v)
		var first *grid
		others := false
		for _, u := range r.g.Uses(v) {
			chain := r.q.reads[u]
			n := r.g.Node(u.Node)
			switch {
			case isDequantize(n):
				q, err := r.gridOf(n)
				if err != nil {
					return err
				}
				if first != nil && !first.same(q) {
					return r.fail(u.Node, "another reader of input %q has another scale", val.Name)
				}
				first = q
			case len(chain) == 0:
				others = true
			}
		}
		if first == nil || val.Const != nil || val.DType == tensor.Float32 {
			continue
		}
		if others {
			return fmt.Errorf("%s: input %q is read as integers too", stage, val.Name)
		}
		val.DType = tensor.Float32
		r.q.Warnings = append(r.q.Warnings,
			tqc.Warning{Text: fmt.Sprintf("input %q of the file is integers; here it is the numbers they stand for, "+
				"(q - %d) * %g", val.Name, first.zero[0], first.scale[0])})
	}
	return nil
}

// nameOutputs gives the tensors behind outputs the names of these, and drops the operators that stood for them, where a tensor is
// one output only and is computed.
func (r *reader) nameOutputs() error {
	for _, o := range r.names {
		out := r.g.Outputs[o.k]
		v := r.g.Node(o.node).Inputs[0]
		if r.g.Producer(v) != graph.NoNode && !r.g.IsOutput(v) && !r.g.Captured(v) {
			r.q.outputs[o.k] = r.q.reads[graph.Use{Node: o.node, Index: 0}]
			delete(r.q.reads, graph.Use{Node: o.node, Index: 0})
			r.g.Outputs[o.k] = v
			r.g.RemoveNode(o.node)
			out = v
		}
		if err := r.g.Rename(out, o.name); err != nil {
			return fmt.Errorf("%s: output %q: %w", stage, o.name, err)
		}
	}
	return nil
}
