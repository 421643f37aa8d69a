package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// layerChain is one step of a program that computes, on its own.
type layerChain struct {
	step *lower.Step
	in   []*lower.Encoding // by input of the step
	out  lower.TensorID
	grid *lower.Encoding // of out; nil for a real result
	loss lossMeter

	split bool // the step has rounded weights, and output channels along axis
	axis  int
	shift shift
}

// findLayers lists the steps whose result is not just moved: those with a loss of their own.
func (e *explainer) findLayers() {
	p := e.cfg.Program
	for i := range p.Steps {
		s := &p.Steps[i]
		switch s.Op.(type) {
		case *lower.Island, *lower.Move, *lower.MaxPool, *lower.Select:
			continue
		}
		if s.Node == graph.NoNode {
			continue
		}
		at := slices.IndexFunc(s.Outputs, func(id lower.TensorID) bool { return id != lower.NoTensor })
		if at < 0 {
			continue
		}
		l := layerChain{step: s, out: s.Outputs[at], grid: p.Tensors[s.Outputs[at]].Encoding}
		l.axis, l.split = splittable(s)
		for _, id := range s.Inputs {
			l.in = append(l.in, p.Tensors[id].Encoding)
		}
		e.layers = append(e.layers, l)
	}
}

// sample runs the chain of one step from the float activations of a sample.
// It notes in moves by how much a table and the profile's integers are off at the step's output.
func (l *layerChain) sample(ctx context.Context, e *explainer, values []*tensor.Tensor, moves *[stages]moves) error {
	p := e.cfg.Program
	inputs := make([]*tensor.Tensor, len(l.step.Inputs))
	codes := make([]*tensor.Tensor, len(l.step.Inputs))
	for k, id := range l.step.Inputs {
		t := &p.Tensors[id]
		if t.Const != nil {
			continue
		}
		x := values[t.Value]
		if x == nil {
			return fmt.Errorf("no value for %q", t.Name)
		}
		inputs[k] = x.ToRowMajor()
		if codes[k] = inputs[k]; l.in[k] != nil {
			q, err := encoded(inputs[k], l.in[k])
			if err != nil {
				return err
			}
			codes[k] = q
		}
	}
	var chain [stages]*tensor.Tensor
	var err error
	if chain[stageFloat], err = l.run(ctx, e, inputs, false, false, nil, p.Tensors[l.out].Value); err != nil {
		return err
	}
	if chain[stageWeights], err = l.run(ctx, e, inputs, true, false, nil, p.Tensors[l.out].Value); err != nil {
		return err
	}
	if chain[stageClip], err = l.run(ctx, e, inputs, true, false, clipTo, p.Tensors[l.out].Value); err != nil {
		return err
	}
	if chain[stageRound], err = l.run(ctx, e, inputs, true, false, roundTo, p.Tensors[l.out].Value); err != nil {
		return err
	}
	if chain[stageBias], err = l.run(ctx, e, inputs, true, true, roundTo, p.Tensors[l.out].Value); err != nil {
		return err
	}
	chain[stageTables] = chain[stageBias]
	if _, ok := l.step.Op.(*lower.Table); ok {
		x := inputs[0].Clone()
		roundTo(x, l.in[0])
		if chain[stageTables], err = looked(p, l.step, x); err != nil {
			return err
		}
	}
	out, err := e.integer.RunStep(ctx, l.step.ID, codes)
	if err != nil {
		return err
	}
	y := out[slices.Index(l.step.Outputs, l.out)]
	if l.grid != nil {
		y = decoded(y, l.grid)
	}
	chain[stageIntegers] = y
	if err := l.loss.add(&chain); err != nil {
		return err
	}
	v := p.Tensors[l.out].Value
	for _, stage := range []int{stageTables, stageIntegers} {
		d, err := difference(chain[stage], chain[stage-1])
		if err != nil {
			return err
		}
		if d != nil {
			moves[stage][v] = d
		}
	}
	if !l.split {
		return nil
	}
	return l.addShift(ctx, e, inputs, values, &chain)
}

// difference returns a-b row-major, nil where nothing differs.
func difference(a, b *tensor.Tensor) (*tensor.Tensor, error) {
	if a == b {
		return nil, nil
	}
	x, y, err := aligned(a.ToRowMajor(), b.ToRowMajor())
	if err != nil {
		return nil, err
	}
	out, some := tensor.New(tensor.Float32, b.Shape...), false
	for i, v := range x {
		out.F32()[i] = v - y[i]
		some = some || v != y[i]
	}
	if !some {
		return nil, nil
	}
	return out, nil
}

// addShift notes what the rounded weights do to the means of the output channels.
func (l *layerChain) addShift(ctx context.Context, e *explainer, inputs, values []*tensor.Tensor, chain *[stages]*tensor.Tensor) error {
	_, size, err := energy(chain[stageFloat], chain[stageFloat], chain[stageFloat])
	if err != nil {
		return err
	}
	own, err := byChannel(chain[stageWeights], chain[stageFloat], l.axis, 1)
	if err != nil {
		return err
	}
	whole, err := byChannel(chain[stageIntegers], chain[stageFloat], l.axis, 1/size)
	if err != nil {
		return err
	}
	head := own
	if v := e.g.Node(l.step.Node).Outputs[0]; v != e.cfg.Program.Tensors[l.out].Value {
		y, err := l.run(ctx, e, inputs, true, false, nil, v)
		if err != nil {
			return err
		}
		if values[v] == nil {
			return fmt.Errorf("no value for %q", e.g.Value(v).Name)
		}
		if head, err = byChannel(y, values[v], l.axis, 1); err != nil {
			return err
		}
	}
	l.shift.add(own, head, whole)
	return nil
}

// clipTo and roundTo bring real numbers to what a grid can represent.
func clipTo(t *tensor.Tensor, e *lower.Encoding)  { e.Grid().ClipSlice(t.F32(), t.F32()) }
func roundTo(t *tensor.Tensor, e *lower.Encoding) { e.Grid().FakeSlice(t.F32(), t.F32()) }

// run computes the step's operators in float, up to value to; limit, if not nil, is applied to what it reads and writes.
func (l *layerChain) run(ctx context.Context, e *explainer, inputs []*tensor.Tensor, weights, bias bool,
	limit func(*tensor.Tensor, *lower.Encoding), to graph.ValueID) (*tensor.Tensor, error) {
	part, feeds, err := l.graph(e, inputs, weights, bias, limit, to)
	if err != nil {
		return nil, err
	}
	session, err := exec.New(part, exec.Options{Context: ctx, Threads: max(e.cfg.Threads, 1)})
	if err != nil {
		return nil, err
	}
	out, err := session.NewRunner().Run(ctx, feeds, nil)
	if err != nil {
		return nil, err
	}
	if limit != nil && l.grid != nil {
		limit(out[0], l.grid)
	}
	return out[0], nil
}

// graph is the step's operators with their parameters as the stage has them, and what they read.
func (l *layerChain) graph(e *explainer, inputs []*tensor.Tensor, weights, bias bool, limit func(*tensor.Tensor, *lower.Encoding),
	to graph.ValueID) (*graph.Graph, map[string]*tensor.Tensor, error) {
	p, set := e.cfg.Program, e.cfg.Set
	from := e.g
	if !weights {
		from = e.float
	}
	g := from.Clone()
	feeds := map[string]*tensor.Tensor{}
	var list []graph.ValueID
	used := make([]bool, len(l.step.Inputs))
	for _, id := range l.step.Nodes {
		n := e.g.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue || slices.Contains(l.step.Nodes, e.g.Producer(v)) {
				continue
			}
			if c := e.g.Const(v); c != nil {
				slot := set.Input(id, i)
				if slot == tqc.NoSlot || !set.Slot(slot).State().Quantizes() {
					continue
				}
				if cfg := &set.Slot(slot).Config; cfg.BeyondFloat() && bias || !cfg.BeyondFloat() && weights {
					fake := c.ToRowMajor().Clone()
					if err := sim.Apply(fake, fake, cfg, set.Params(slot), sim.Quantize); err != nil {
						return nil, nil, err
					}
					g.SetInput(id, i, g.AddConst("fake", fake))
				}
				continue
			}
			k := l.input(p, v, used)
			if k < 0 {
				return nil, nil, fmt.Errorf("input %d of %q is not one of the step's", i, n.Name)
			}
			used[k] = true
			x := inputs[k]
			if limit != nil && l.in[k] != nil {
				x = x.Clone()
				limit(x, l.in[k])
			}
			name := g.FreshName("fed")
			added, err := g.AddValue(graph.Value{Name: name, DType: x.DType, Shape: graph.Static(x.Shape...)})
			if err != nil {
				return nil, nil, err
			}
			list, feeds[name] = append(list, added), x
			g.SetInput(id, i, added)
		}
	}
	part, err := graph.Extract(g, list, []graph.ValueID{to})
	return part, feeds, err
}

// input is the input of the step that holds a value: one that no operator reads yet, where there are several.
func (l *layerChain) input(p *lower.Program, v graph.ValueID, used []bool) int {
	found := -1
	for k, id := range l.step.Inputs {
		if p.Tensors[id].Value == v && (found < 0 || used[found]) {
			found = k
		}
	}
	return found
}

// encoded returns the integers of real numbers, decoded the real numbers of integers.
func encoded(t *tensor.Tensor, e *lower.Encoding) (*tensor.Tensor, error) {
	codes := make([]int32, t.Len())
	g := e.Grid()
	for i, v := range t.F32() {
		codes[i] = g.Quantize(v)
	}
	return tqc.Narrow(e.DType(), t.Shape, codes)
}

func decoded(t *tensor.Tensor, e *lower.Encoding) *tensor.Tensor {
	out := tensor.New(tensor.Float32, t.Shape...)
	g := e.Grid()
	for i, q := range t.Integers() {
		out.F32()[i] = g.Dequantize(q)
	}
	return out
}
