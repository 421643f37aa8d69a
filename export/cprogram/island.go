package cprogram

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// island writes a part of the graph that runs in float.
func (w *writer) island(s *lower.Step, op *lower.Island) error {
	in := make([]*value, len(s.Inputs))
	for k, id := range s.Inputs {
		if w.readsData(s, k) {
			in[k] = w.read(id)
			continue
		}
		shape, _ := w.p.Tensors[id].Shape.Ints()
		in[k] = &value{dtype: w.p.Tensors[id].DType, shape: shape}
	}
	outs, err := w.graph(op.Graph, in)
	if err != nil {
		return err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor && outs[k] != nil {
			w.values[id] = outs[k]
		}
	}
	return nil
}

// graph writes the nodes of a graph in their order and returns the arrays of its outputs.
func (w *writer) graph(g *graph.Graph, in []*value) ([]*value, error) {
	g = g.Clone()
	for k, v := range g.Inputs {
		g.Value(v).Shape = graph.Static(in[k].shape...)
	}
	if errs := graph.InferShapes(g); len(errs) > 0 {
		return nil, errs[0]
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	values := map[graph.ValueID]*value{}
	for k, v := range g.Inputs {
		values[v] = in[k]
	}
	needed := neededNodes(g, order)
	for _, id := range order {
		if !needed[id] {
			continue
		}
		n := g.Node(id)
		outs, err := w.node(g, n, values)
		if err != nil {
			return nil, g.ErrorAt("export c", id, fmt.Errorf("in float: %w", err))
		}
		for k, v := range outs {
			if v != nil {
				values[n.Outputs[k]] = v
			}
		}
	}
	outs := make([]*value, len(g.Outputs))
	for k, v := range g.Outputs {
		if outs[k], err = w.operand(g, v, values); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// neededNodes says on which nodes the elements of the outputs depend.
func neededNodes(g *graph.Graph, order []graph.NodeID) map[graph.NodeID]bool {
	needed := map[graph.NodeID]bool{}
	mark := func(v graph.ValueID) {
		if v != graph.NoValue && g.Producer(v) != graph.NoNode {
			needed[g.Producer(v)] = true
		}
	}
	for _, v := range g.Outputs {
		mark(v)
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := g.Node(order[i])
		if !needed[order[i]] {
			continue
		}
		for k, v := range n.Inputs {
			if !shapeInput(n, k) {
				mark(v)
			}
		}
	}
	return needed
}

// operand is the array of a value: computed, or a constant.
func (w *writer) operand(g *graph.Graph, v graph.ValueID, values map[graph.ValueID]*value) (*value, error) {
	if x := values[v]; x != nil {
		return x, nil
	}
	c := g.Const(v)
	if c == nil {
		return nil, fmt.Errorf("%q is not there", g.Value(v).Name)
	}
	if cTypes[c.DType.String()] == "" {
		return nil, fmt.Errorf("%q has the type %s, which the C program does not have", g.Value(v).Name, c.DType)
	}
	x := &value{name: w.constant(c, g.Value(v).Name), dtype: c.DType, shape: c.Shape, fixed: true}
	values[v] = x
	return x, nil
}

// shapeOf is the fixed shape of a value.
func shapeOf(g *graph.Graph, v graph.ValueID) ([]int, error) {
	s, ok := g.Value(v).Shape.Ints()
	if !ok || g.Value(v).Shape == nil {
		return nil, fmt.Errorf("%q is %s: the C program needs fixed shapes", g.Value(v).Name, g.Value(v).Shape)
	}
	return s, nil
}

// node writes one node.
func (w *writer) node(g *graph.Graph, n *graph.Node, values map[graph.ValueID]*value) ([]*value, error) {
	in := make([]*value, len(n.Inputs))
	for k, v := range n.Inputs {
		if v == graph.NoValue || shapeInput(n, k) {
			continue
		}
		if c := g.Const(v); c != nil && k > 0 && (n.Op == "Gather" || n.Op == "GatherElements" || n.Op == "Clip") {
			continue // read when the file is written
		}
		var err error
		if in[k], err = w.operand(g, v, values); err != nil {
			return nil, err
		}
	}
	shapes := make([][]int, len(n.Outputs))
	for k, v := range n.Outputs {
		if v == graph.NoValue || len(g.Uses(v)) == 0 && !g.IsOutput(v) {
			continue
		}
		var err error
		if shapes[k], err = shapeOf(g, v); err != nil {
			return nil, err
		}
	}
	w.line("/* %s %q */", n.Op, plain(n.Name))
	w.open()
	outs, err := w.operator(g, n, in, shapes)
	w.close()
	return outs, err
}

// operator writes what a node computes.
func (w *writer) operator(g *graph.Graph, n *graph.Node, in []*value, shapes [][]int) ([]*value, error) {
	only := func(v *value, err error) ([]*value, error) { return []*value{v}, err }
	if isMove(n.Op) {
		return w.moved(g, n, in, shapes)
	}
	for k, x := range in {
		condition := n.Op == "Where" && k == 0
		if x != nil && (x.dtype != tensor.Float32 && !condition || condition && x.dtype != tensor.Bool) {
			return nil, fmt.Errorf("%s of type %s has no form in C", n.Op, x.dtype)
		}
	}
	f, ok := operators()[n.Op]
	if !ok || !n.IsONNX() {
		return nil, fmt.Errorf("the operator has no form in C; those that have: %s", known())
	}
	return only(f(w, g, n, in, shapes[0]))
}
