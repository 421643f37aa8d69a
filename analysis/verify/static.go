package verify

import (
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// checked is a program with what every step should be.
type checked struct {
	*premises
	layers     []*layer
	operations []operation // by step, nil where a step could not be derived
	static     analysis.StaticCheck
	first      []int // by fault: the step
}

// Static derives every number of a program a second time, from its graph, set and profile, and compares. A step that graph and plan
// do not explain at all is a fault too.
func Static(set *tqc.Set, p *lower.Program) (analysis.StaticCheck, error) {
	c, err := check(set, p, 1)
	if err != nil {
		return analysis.StaticCheck{}, err
	}
	return c.static, nil
}

func check(set *tqc.Set, p *lower.Program, threads int) (*checked, error) {
	if p == nil || p.Graph == nil || len(set.Domains) != p.Graph.NumNodes() {
		return nil, fmt.Errorf("verify: the set is for another graph than the program")
	}
	c := &checked{premises: newPremises(set, p), operations: make([]operation, len(p.Steps))}
	made := make([]bool, len(p.Tensors))
	for i := range p.Tensors {
		made[i] = p.Tensors[i].Const != nil
	}
	for _, id := range p.Inputs {
		made[id] = true
	}
	found := make([]faults, len(p.Steps))
	for i := range p.Steps {
		l, f := c.layerOf(&p.Steps[i]), &found[i]
		c.layers, f.layer = append(c.layers, l), l
		l.wiring(f, made)
		l.places(f)
		l.constants(f)
		op, err := l.derive()
		if err != nil {
			d := l.divergence(0)
			d.What, d.ExpectedBy = err.Error(), "plan"
			f.list = append(f.list, d)
		} else {
			c.operations[i] = op
		}
	}
	err := inParallel(threads, len(found), func(i int) error {
		if op := c.operations[i]; op != nil {
			op.compare(&found[i])
		}
		return nil
	})
	for i := range found {
		f := &found[i]
		c.static.Steps++
		c.static.Values += f.values
		room := maxFaults - len(c.static.Faults)
		for _, d := range f.list[:min(room, len(f.list))] {
			c.static.Faults, c.first = append(c.static.Faults, d), append(c.first, i)
		}
	}
	return c, err
}

// wiring checks that a step reads what is there and writes the value of its last node.
func (l *layer) wiring(f *faults, made []bool) {
	for k, id := range l.step.Inputs {
		if !made[id] {
			f.add("input that is not computed yet", k, 0, float64(id))
		}
	}
	for k, id := range l.step.Outputs {
		f.output = k
		if id == lower.NoTensor {
			continue
		}
		if made[id] {
			f.add("output that is there already", k, 0, float64(id))
		}
		made[id] = true
	}
	f.output = 0
	if _, ok := l.step.Op.(*lower.Island); ok || l.node == nil {
		if l.node == nil && (len(l.step.Inputs) != 1 || l.program.Tensors[l.step.Inputs[0]].Value != l.program.Tensors[l.step.Outputs[0]].Value) {
			f.add("conversion to another value", 0, 0, 1)
		}
		return
	}
	last := l.g.Node(l.step.Nodes[len(l.step.Nodes)-1])
	for k, id := range l.step.Outputs {
		if id != lower.NoTensor && !slices.Contains(last.Outputs, l.program.Tensors[id].Value) {
			f.add("value", k, 0, float64(l.program.Tensors[id].Value))
		}
	}
}

// places compares scale and zero point of what the step writes with the plan's.
func (l *layer) places(f *faults) {
	for k, id := range l.step.Outputs {
		if id == lower.NoTensor {
			continue
		}
		f.output = k
		l.place(f, &l.program.Tensors[id])
	}
	f.output = 0
}

func (l *layer) place(f *faults, t *lower.Tensor) {
	if t.Encoding == nil {
		return
	}
	want := *l.grids[t.ID]
	got := t.Encoding
	if l.wrong[t.ID] && want.Scale == got.Scale && want.ZeroPoint == got.ZeroPoint && want.QMin == got.QMin && want.QMax == got.QMax &&
		want.Rounding == got.Rounding {
		f.add("integers where the plan has none", 0, 0, 1)
		return
	}
	number(f, "scale", 0, want.Scale, got.Scale)
	number(f, "zero point", 0, want.ZeroPoint, got.ZeroPoint)
	number(f, "smallest code", 0, want.QMin, got.QMin)
	number(f, "largest code", 0, want.QMax, got.QMax)
	number(f, "rounding", 0, want.Rounding, got.Rounding)
}

// constants compares the integers of constant operands, at the step that reads them.
func (l *layer) constants(f *faults) {
	for _, id := range l.step.Inputs {
		t := &l.program.Tensors[id]
		source := l.g.Const(t.Value)
		if t.Const == nil || t.Encoding == nil || source == nil {
			continue
		}
		l.place(f, t)
		g := *l.grids[id]
		codes := t.Const.Integers()
		x := source.ToRowMajor().F32()
		number(f, "number of constants", 0, len(x), len(codes))
		for i := range min(len(x), len(codes)) {
			number(f, "constant", i, g.Quantize(x[i]), codes[i])
		}
	}
}
