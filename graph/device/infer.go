package device

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// ErrShape is wrapped by the errors of Prepare and Run for a graph in which a shape depends on data: package exec can run it.
var ErrShape = errors.New("on the device shapes have to follow from those of the inputs")

// outType is the element type and shape of an output.
type outType struct {
	dtype tensor.DType
	shape []int
}

// outputs infers the outputs of a node from what the plan knows of its inputs. What does not follow from one node alone, as the
// results of If, is looked up in whole, the graph with all shapes inferred.
func (p *Plan) outputs(n *graph.Node, whole *graph.Graph) ([]outType, error) {
	spec := n.Spec()
	if spec == nil {
		return nil, fmt.Errorf("the shapes of operator %s are not known", n.Op)
	}
	in := make([]graph.InferInput, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != graph.NoValue {
			h := &p.vals[v]
			in[i] = graph.InferInput{Present: true, DType: h.dtype, Shape: graph.Static(h.shape...), Tensor: h.known}
		}
	}
	found, err := spec.InferNode(n, p.s.g.Opset(n.Domain), in)
	if err != nil {
		return nil, err
	}
	out := make([]outType, len(n.Outputs))
	for i, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		d, s := found[i].DType, found[i].Shape
		shape, ok := s.Ints()
		if !ok || d == tensor.Undefined {
			d = whole.Value(v).DType
			shape, ok = whole.Value(v).Shape.Ints()
		}
		if !ok || d == tensor.Undefined {
			return nil, fmt.Errorf("%w: that of %q does not", ErrShape, p.s.g.Value(v).Name)
		}
		out[i] = outType{d, shape}
	}
	return out, nil
}

// bound returns a copy of the graph in which all shapes that follow from those of the inputs are inferred.
func bound(g *graph.Graph, types []Type) *graph.Graph {
	c := g.Clone()
	for i, v := range c.Inputs {
		if types[i].Shape != nil {
			c.Value(v).DType, c.Value(v).Shape = types[i].DType, graph.Static(types[i].Shape...)
		}
	}
	graph.InferShapes(c) // what it finds wrong is found again, node by node
	return c
}

// fold is what a node computed of inputs that are known.
type fold struct {
	in, out []*tensor.Tensor
}

// known computes the outputs of node id if they follow from what is known; nil if not. They are kept for other plans.
func (p *Plan) known(id graph.NodeID) ([]*tensor.Tensor, error) {
	n := p.s.g.Node(id)
	if random[n.Op] || len(n.Subgraphs()) > 0 {
		return nil, nil
	}
	if t := p.shapeOf(n); t != nil {
		return []*tensor.Tensor{t}, nil
	}
	var in []*tensor.Tensor
	for _, v := range n.Inputs {
		if v == graph.NoValue {
			continue
		}
		t := p.vals[v].known
		if t == nil {
			return nil, nil
		}
		in = append(in, t)
	}
	if f := p.s.folds[id]; f != nil && slices.Equal(f.in, in) {
		return f.out, nil
	}
	out, err := p.s.once(p, id)
	if err != nil {
		return nil, err
	}
	p.s.folds[id] = &fold{in, out}
	if !slices.ContainsFunc(in, func(t *tensor.Tensor) bool { return !p.s.stable[t] }) {
		for _, t := range out {
			p.s.stable[t] = true
		}
	}
	return out, nil
}

// random are the operators that give another result at every call.
var random = map[string]bool{"RandomNormal": true, "RandomUniform": true, "RandomNormalLike": true, "RandomUniformLike": true,
	"Multinomial": true, "Bernoulli": true}

// shapeOf returns what Shape and Size give, nil for other nodes.
func (p *Plan) shapeOf(n *graph.Node) *tensor.Tensor {
	if !n.IsONNX() || n.Op != "Shape" && n.Op != "Size" {
		return nil
	}
	shape := p.vals[n.Inputs[0]].shape
	if n.Op == "Size" {
		return tensor.FromI64([]int64{int64(tensor.Count(shape))})
	}
	r := int64(len(shape))
	bound := func(name string, def int64) int64 {
		v := n.AttrInt(name, def)
		if v < 0 {
			v += r
		}
		return min(max(v, 0), r)
	}
	start, end := bound("start", 0), bound("end", r)
	dims := []int64{}
	for i := start; i < end; i++ {
		dims = append(dims, int64(shape[i]))
	}
	return tensor.FromI64(dims, len(dims))
}
