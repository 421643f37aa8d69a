package verify

import (
	"fmt"
	"reflect"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
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

// compare holds the island's operators to those of the graph, and the Casts around those of less precision to the plan's domains.
func (o *island) compare(f *faults) {
	g, own := o.got.Graph, 0
	for _, id := range g.Nodes() {
		n := g.Node(id)
		at, ok := o.g.LookupNode(n.Name)
		if !ok && n.Op == "Cast" && n.Domain == "" {
			flag(f, "rounding "+n.Name, true, o.half(n.Input(0)) != o.half(n.Output(0)))
			continue
		}
		own++
		flag(f, "operator "+n.Name, true, ok && o.g.Node(at).Op == n.Op && reflect.DeepEqual(o.g.Node(at).Attrs, n.Attrs))
		if ok {
			o.compareRounding(f, n, at)
		}
	}
	number(f, "number of operators", 0, len(o.step.Nodes), own)
}

// half reports whether a value is of one of the types that float32 is rounded to.
func (o *island) half(v graph.ValueID) bool { return o.dtype(v) != tensor.Undefined }

// dtype is the type of a value that float32 is rounded to, Undefined of all others.
func (o *island) dtype(v graph.ValueID) tensor.DType {
	if v != graph.NoValue {
		if d := o.got.Graph.Value(v).DType; d == tensor.Float16 || d == tensor.BFloat16 {
			return d
		}
	}
	return tensor.Undefined
}

// compareRounding reports whether what a node reads and computes passes through the type of its domain, or, of float32, through none but
// those of its neighbours.
func (o *island) compareRounding(f *faults, n *graph.Node, own graph.NodeID) {
	g, d := o.got.Graph, o.set.Domains[own].Half()
	if d == tensor.Undefined {
		return
	}
	for i, v := range n.Inputs {
		if !target.DataInput(o.g, own, i) {
			continue
		}
		through := tensor.Undefined
		if c := g.Const(v); c != nil {
			if roundedTo(c, o.set.Domains[own].Precision()) {
				through = d
			}
		} else if p := g.Producer(v); p != graph.NoNode && g.Node(p).Op == "Cast" {
			through = o.dtype(g.Node(p).Input(0))
		}
		flag(f, fmt.Sprintf("rounding of input %d of %s", i, n.Name), true, through == d)
	}
	for i, v := range n.Outputs {
		if v == graph.NoValue || !target.DataOutput(o.g, own, i) {
			continue
		}
		rounded := !g.IsOutput(v)
		for _, u := range g.Uses(v) {
			rounded = rounded && o.dtype(g.Node(u.Node).Output(0)) == d
		}
		flag(f, fmt.Sprintf("rounding of output %d of %s", i, n.Name), true, rounded)
	}
}

// roundedTo reports whether all numbers of a constant are of a precision.
func roundedTo(t *tensor.Tensor, p qmath.Precision) bool {
	return t.DType == tensor.Float32 && !slices.ContainsFunc(t.F32(), func(x float32) bool { return p.Round(x) != x && x == x })
}

func (o *island) exact(*computer, []*tensor.Tensor) ([]*exact, error) {
	return make([]*exact, len(o.step.Outputs)), nil
}
