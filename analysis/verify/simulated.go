package verify

import (
	"fmt"
	"reflect"
	"slices"

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
	o.compareFakes(f)
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

// compareFakes holds the formats of inputs and outputs that integers do not stand for to the plan's.
func (o *simulated) compareFakes(f *faults) {
	inside := map[graph.ValueID]bool{}
	for _, id := range o.step.Nodes {
		for _, v := range o.g.Node(id).Outputs {
			inside[v] = true
		}
	}
	var reads []tqc.SlotID // of the plan, that are no integers, in order
	for _, id := range o.step.Nodes {
		for i, v := range o.g.Node(id).Inputs {
			if s := o.set.Input(id, i); v != graph.NoValue && o.g.Const(v) == nil && !inside[v] && o.fakes(s) {
				reads = append(reads, s)
			}
		}
	}
	at := 0
	flag(f, "formats of inputs", true, len(o.got.In) == len(o.step.Inputs))
	for _, got := range o.got.In {
		if got == nil {
			continue
		}
		flag(f, "format of an input", true, at < len(reads) && o.sameFormat(reads[at], got))
		at++
	}
	number(f, "number of formats of inputs", 0, len(reads), at)
	last := o.step.Nodes[len(o.step.Nodes)-1]
	flag(f, "formats of outputs", true, len(o.got.Out) == len(o.step.Outputs))
	for k, got := range o.got.Out {
		for i, v := range o.g.Node(last).Outputs {
			if k < len(o.step.Outputs) && o.program.Tensors[o.step.Outputs[k]].Value == v {
				s := o.set.Output(last, i)
				flag(f, "format of an output", o.fakes(s), got != nil)
				flag(f, "format of an output", true, got == nil || o.sameFormat(s, got))
			}
		}
	}
}

// fakes reports whether a slot quantizes to what integers do not stand for.
func (o *simulated) fakes(s tqc.SlotID) bool {
	return s != tqc.NoSlot && o.set.Slot(s).State().Quantizes() && !integers(&o.set.Slot(s).Config)
}

func (o *simulated) sameFormat(s tqc.SlotID, got *lower.Fake) bool {
	p := o.set.Params(s)
	if p == nil {
		p = &tqc.Params{}
	}
	return got.Config == o.set.Slot(s).Config && slices.Equal(got.Params.Scale, p.Scale) && slices.Equal(got.Params.ZeroPoint, p.ZeroPoint) &&
		got.Params.Global == p.Global
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
	codec, err := elementCodecs(own, &o.set.Slot(slot).Config, o.set.Params(slot))
	flag(f, "scales", true, err == nil)
	if err != nil {
		return
	}
	cfg, x := &o.set.Slot(slot).Config, got.ToRowMajor().F32()
	for k, v := range own.ToRowMajor().F32() {
		g := codec(k)
		want := g.Dequantize(g.Quantize(v))
		if cfg.Bits > 24 {
			q, _ := o.set.Params(slot).BiasCode(k, v, g.Scale)
			want = g.Dequantize(q)
		}
		number(f, "constant", k, want, x[k])
	}
}

// elementCodecs returns what codes mean at every element of a constant, in row-major order.
func elementCodecs(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params) (func(i int) qmath.Codec, error) {
	if cfg.RunTime() {
		return nil, fmt.Errorf("a constant with scales of run time")
	}
	codec := func(c int) qmath.Codec {
		return qmath.Codec{Format: cfg.Format, Scale: p.Scale[c], ZeroPoint: p.ZeroPoint[c], Rounding: cfg.Rounding}
	}
	if cfg.Policy.Has(tqc.PerTensor) {
		return func(int) qmath.Codec { return codec(0) }, nil
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
	return func(i int) qmath.Codec {
		c := i / inner % n
		if cfg.Policy.Has(tqc.PerGroup) {
			c = (i/(inner*n)*blocks+c/size)*inner + i%inner
		}
		return codec(c)
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
			if c.set.Domains[id] != tqc.DomainInt {
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
