package verify

import (
	"fmt"
	"reflect"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// passing is an operator whose results are some of the integers that it reads: a move, or a max pool.
type passing struct {
	*layer
	x     qmath.Grid
	check func(f *faults)
}

// derivePassing checks that the outputs are on the grid of the input.
func (l *layer) derivePassing(check func(x qmath.Grid, f *faults)) (operation, error) {
	if len(l.step.Inputs) == 0 || l.in(0) == nil {
		return nil, fmt.Errorf("the input is not integers")
	}
	x := *l.in(0)
	if seen := l.seen(l.node.ID, 0); seen != nil {
		x = *seen
	}
	for k := range l.step.Outputs {
		if y := l.out(k); y != nil && *y != x && l.program.Tensors[l.step.Outputs[k]].Const == nil {
			return nil, fmt.Errorf("output %d has scale %g and zero point %d, its input %g and %d", k, y.Scale, y.ZeroPoint, x.Scale, x.ZeroPoint)
		}
	}
	return &passing{l, x, func(f *faults) { check(x, f) }}, nil
}

func (p *passing) compare(f *faults) { p.check(f) }

// exact runs the node on the integers less their zero point. What it gives is integers again, and exact.
func (p *passing) exact(c *computer, in []*tensor.Tensor) ([]*exact, error) {
	out, err := p.runAlone(c, in, p.x.ZeroPoint, false)
	if err != nil {
		return nil, err
	}
	list := make([]*exact, len(p.step.Outputs))
	for k := range list {
		if p.out(k) == nil {
			continue
		}
		x := out[k].F32()
		values := make([]float64, len(x))
		for i, v := range x {
			values[i] = float64(v) * float64(p.x.Scale)
		}
		list[k] = p.steps(values, p.x, 0)
	}
	return list, nil
}

func (l *layer) deriveMaxPool(op *lower.MaxPool) (operation, error) {
	if err := l.wants("MaxPool", "GlobalMaxPool"); err != nil {
		return nil, err
	}
	return l.derivePassing(func(x qmath.Grid, f *faults) {
		flag(f, "global", l.node.Op == "GlobalMaxPool", op.Global)
		number(f, "smallest code", 0, x.QMin, op.Lowest)
	})
}

func (l *layer) deriveMove(op *lower.Move) (operation, error) {
	if l.node == nil {
		return nil, fmt.Errorf("a move without a node")
	}
	return l.derivePassing(func(x qmath.Grid, f *faults) {
		nodes := op.Graph.Nodes()
		number(f, "number of operators", 0, 1, len(nodes))
		if len(nodes) != 1 {
			return
		}
		n := op.Graph.Node(nodes[0])
		flag(f, "operator", true, n.Op == l.node.Op && n.Domain == l.node.Domain)
		if l.node.Op != "Pad" { // whose form may be a newer one
			flag(f, "attributes", true, reflect.DeepEqual(n.Attrs, l.node.Attrs))
			flag(f, "constants", true, l.sameConstants(op.Graph, n))
			return
		}
		if l.node.Pad().Mode != "constant" {
			return
		}
		fill := op.Graph.Const(n.Input(2))
		flag(f, "fill", true, fill != nil)
		if fill != nil {
			number(f, "zero point", 0, x.ZeroPoint, fill.Integers()[0])
		}
	})
}

// sameConstants reports whether a node of a step has the constants of the graph's.
func (l *layer) sameConstants(g *graph.Graph, n *graph.Node) bool {
	for i, v := range l.node.Inputs {
		t := l.g.Const(v)
		if i == 0 || t == nil {
			continue
		}
		if own := g.Const(n.Input(i)); own == nil || !tensor.Equal(own, t) {
			return false
		}
	}
	return true
}

// island is a part of the graph in float.
type island struct {
	*layer
	got *lower.Island
}

func (l *layer) deriveIsland(op *lower.Island) (operation, error) {
	if len(op.Graph.Inputs) != len(l.step.Inputs) || len(op.Graph.Outputs) != len(l.step.Outputs) {
		return nil, fmt.Errorf("an island of %d inputs and %d outputs in a step of %d and %d", len(op.Graph.Inputs), len(op.Graph.Outputs),
			len(l.step.Inputs), len(l.step.Outputs))
	}
	return &island{l, op}, nil
}

// compare holds the island's operators to those of the graph.
func (o *island) compare(f *faults) {
	number(f, "number of operators", 0, len(o.step.Nodes), len(o.got.Graph.Nodes()))
	for _, id := range o.got.Graph.Nodes() {
		n := o.got.Graph.Node(id)
		own, ok := o.g.LookupNode(n.Name)
		flag(f, "operator "+n.Name, true, ok && o.g.Node(own).Op == n.Op && reflect.DeepEqual(o.g.Node(own).Attrs, n.Attrs))
	}
}

func (o *island) exact(*computer, []*tensor.Tensor) ([]*exact, error) {
	return make([]*exact, len(o.step.Outputs)), nil
}
