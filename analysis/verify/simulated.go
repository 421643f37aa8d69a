package verify

import (
	"fmt"
	"reflect"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// simulated is a step without an integer form. Its operators and constants are held to graph and plan; what it computes is compared
// with nothing.
type simulated struct {
	*layer
	got *lower.Simulated
}

func (l *layer) deriveSimulated(op *lower.Simulated) (operation, error) {
	if l.node == nil || len(op.Graph.Inputs) != len(l.step.Inputs) || len(op.Graph.Outputs) != len(l.step.Outputs) {
		return nil, fmt.Errorf("a simulated part of %d inputs and %d outputs in a step of %d and %d", len(op.Graph.Inputs), len(op.Graph.Outputs),
			len(l.step.Inputs), len(l.step.Outputs))
	}
	return &simulated{l, op}, nil
}

// compare holds the operators and constants of the step to those of graph and plan.
func (o *simulated) compare(f *faults) {
	number(f, "number of operators", 0, len(o.step.Nodes), len(o.got.Graph.Nodes()))
	for _, id := range o.step.Nodes {
		own := o.g.Node(id)
		there, ok := o.got.Graph.LookupNode(own.Name)
		flag(f, "operator "+own.Name, true, ok)
		if !ok {
			continue
		}
		n := o.got.Graph.Node(there)
		flag(f, "operator "+own.Name, true, n.Op == own.Op && reflect.DeepEqual(n.Attrs, own.Attrs) && len(n.Inputs) == len(own.Inputs))
		for i, v := range own.Inputs {
			if t := o.g.Const(v); t != nil && i < len(n.Inputs) {
				o.compareConst(f, id, i, t, o.got.Graph.Const(n.Inputs[i]))
			}
		}
	}
}

// compareConst holds a constant of the step to what the plan's grids leave of the graph's.
func (o *simulated) compareConst(f *faults, id graph.NodeID, i int, own, got *tensor.Tensor) {
	flag(f, "constant", true, got != nil && got.DType == own.DType && got.Len() == own.Len())
	if got == nil || got.DType != own.DType || got.Len() != own.Len() {
		return
	}
	slot := o.set.Input(id, i)
	if slot == tqc.NoSlot || !o.set.Slot(slot).State().Quantizes() {
		flag(f, "constant", true, tensor.Equal(own.ToRowMajor(), got.ToRowMajor()))
		return
	}
	grid, err := elementGrids(own, &o.set.Slot(slot).Config, o.set.Params(slot))
	flag(f, "scales", true, err == nil)
	if err != nil {
		return
	}
	cfg, x := &o.set.Slot(slot).Config, got.ToRowMajor().F32()
	for k, v := range own.ToRowMajor().F32() {
		g := grid(k)
		want := g.Dequantize(g.Quantize(v))
		if cfg.Bits > 24 {
			q, _ := o.set.Params(slot).BiasCode(k, v, g.Scale)
			want = g.Dequantize(q)
		}
		number(f, "constant", k, want, x[k])
	}
}

// elementGrids returns the grid of every element of a constant, in row-major order.
func elementGrids(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params) (func(i int) qmath.Grid, error) {
	grid := func(c int) qmath.Grid {
		return qmath.Grid{Scale: p.Scale[c], ZeroPoint: p.ZeroPoint[c], QMin: cfg.QMin, QMax: cfg.QMax, Rounding: cfg.Rounding}
	}
	if cfg.Policy.Has(tqc.PerTensor) {
		return func(int) qmath.Grid { return grid(0) }, nil
	}
	axis, ok := graph.Axis(cfg.Axis, len(t.Shape))
	if !ok {
		return nil, fmt.Errorf("scales along axis %d of %s", cfg.Axis, t.Type())
	}
	n, inner := t.Shape[axis], 1
	for _, d := range t.Shape[axis+1:] {
		inner *= d
	}
	size, blocks := 1, n // of a group along the axis; how many groups that makes
	scales := n
	if cfg.Policy.Has(tqc.PerGroup) {
		size = max(cfg.GroupSize, 1)
		blocks = (n + size - 1) / size
		scales = t.Len() / max(n, 1) * blocks
	}
	if len(p.Scale) != scales {
		return nil, fmt.Errorf("%d scales for %s", len(p.Scale), t.Type())
	}
	return func(i int) qmath.Grid {
		c := i / inner % n
		if cfg.Policy.Has(tqc.PerGroup) {
			c = (i/(inner*n)*blocks+c/size)*inner + i%inner
		}
		return grid(c)
	}, nil
}

func (o *simulated) exact(*computer, []*tensor.Tensor) ([]*exact, error) {
	return make([]*exact, len(o.step.Outputs)), nil
}

// isSimulated reports whether a step is listed instead of compared.
func isSimulated(s *lower.Step) bool {
	_, ok := s.Op.(*lower.Simulated)
	return ok
}

// regions lists the steps that have no integer form, says what share of the plan's integer work the others do, and returns how many
// operators those others are.
func (c *checked) regions(v *analysis.Verification) (compared int64) {
	var nodes, macs [2]int64 // of integer steps, and of simulated ones
	known := true
	for i := range c.program.Steps {
		s := &c.program.Steps[i]
		row, at := analysis.SimulatedStep{}, 0
		if isSimulated(s) {
			at = 1
		}
		for _, id := range s.Nodes {
			if c.set.Domains[id] != tqc.DomainINT8 {
				continue
			}
			n, ok := c.g.MACs(id)
			known = known && ok
			nodes[at]++
			macs[at] += n
			row.MACs += n
		}
		if op, ok := s.Op.(*lower.Simulated); ok {
			row.Node, row.Op, row.Why = c.layers[i].name(), c.layers[i].op(), op.Why
			v.Simulated = append(v.Simulated, row)
		}
	}
	if len(v.Simulated) == 0 {
		return nodes[0]
	}
	v.Share = &analysis.Share{Of: "macs", Verified: macs[0], All: macs[0] + macs[1]}
	if !known || v.Share.All == 0 {
		v.Share = &analysis.Share{Of: "operators", Verified: nodes[0], All: nodes[0] + nodes[1]}
	}
	return nodes[0]
}
