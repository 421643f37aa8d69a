package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// Ran is what running another program of the same network found.
type Ran struct {
	Same     bool // step for step and number for number the program of the first: it was run on one sample
	Samples  int
	Integers int64 // of them that were compared, and are equal
	Of       int64 // integers that the first program computes
}

// Twin runs a program that has to compute the integers of another one, on n samples, and compares every tensor that both of them have.
// Where the two are the same operations on the same numbers it needs no run to know, and makes one, on the first sample, for what reads and
// runs them. Where operators in float come before a tensor whose integers differ, it feeds both programs the same numbers of these
// operators, which have to be alike (their difference has at most 1e-4 of the energy), and compares again. Integers that differ are an
// error that names the first. sums are those of the first program where it was run on the same samples; nil: it is run here. axes
// are the orders of axes of tensors of the other, by name, where they are known: axis i is axis [i] of the first's. An input, and a tensor
// of four axes, may have its channels first where the first has them last, or the other way round.
func Twin(ctx context.Context, own, other *lower.Program, axes map[string][]int, sums *Sums, samples exec.Iterator, n int,
	backend program.Backend, threads int) (r Ran, err error) {
	t := &twins{first: side{program: own}, second: side{program: other, axes: axes}, backend: backend, threads: threads}
	defer t.close()
	if r.Same = SameProgram(ctx, own, other); r.Same {
		n = min(n, 1)
	}
	for ; r.Samples < n; r.Samples++ {
		sample, err := samples.Next(ctx)
		if err != nil {
			return r, err
		}
		var want ran
		if sums != nil && r.Samples < len(sums.samples) {
			want = sums.samples[r.Samples]
		} else if want, err = t.run(ctx, &t.first, sample.Feeds, nil); err != nil {
			return r, err
		}
		got, err := t.run(ctx, &t.second, sample.Feeds, nil)
		if err != nil {
			return r, fmt.Errorf("running what was written: %w", err)
		}
		pairs := paired(want.sums, got.sums)
		if err := fault(pairs); err != nil {
			return r, err
		}
		free := pairs // those of want and got
		if slices.ContainsFunc(pairs, func(p both) bool { return p.other != nil && p.own.behind && !p.own.same(p.other) }) {
			if pairs, err = t.lockstep(ctx, sample.Feeds); err != nil {
				return r, err
			}
			if err := fault(pairs); err != nil {
				return r, err
			}
		}
		if err := t.outputs(want, got, free); err != nil {
			return r, err
		}
		for _, p := range pairs {
			if r.Of += int64(p.own.n); p.other != nil && p.own.same(p.other) {
				r.Integers += int64(p.own.n)
			}
		}
	}
	return r, nil
}

// fault is the error of the first tensor whose integers differ though nothing in float comes before it.
func fault(pairs []both) error {
	for _, p := range pairs {
		if p.other != nil && !p.own.behind && !p.other.behind && !p.own.same(p.other) {
			return fmt.Errorf("the program of the file computes other integers than the plan, first in tensor %q (%s)", p.own.tensor, p.computed)
		}
	}
	return nil
}

// outputs are those of both, one after the other: their integers are the same where nothing in float comes before them, or where all
// integers are. Others are then alike.
func (t *twins) outputs(want, got ran, pairs []both) error {
	all := !slices.ContainsFunc(pairs, func(p both) bool { return p.other != nil && !p.own.same(p.other) })
	a, b := t.first.outputs(want.sums), t.second.outputs(got.sums)
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x != nil && y != nil:
			if x.n != y.n || x.shape == y.shape && (all || !x.behind && !y.behind) && !x.same(y) {
				return fmt.Errorf("output %d of the file has other integers than the plan's, which are of tensor %q", i, x.tensor)
			}
		case all && len(want.outs) > 0 && !t.alikeOutputs(want.outs[i], got.outs[i], i):
			return fmt.Errorf("output %d of the file has other numbers than the plan's", i)
		}
	}
	return nil
}

// alikeOutputs reports whether an output of both is alike, as far as its shape tells.
func (t *twins) alikeOutputs(x, y *tensor.Tensor, i int) bool {
	p := t.second.program
	axes := t.second.order(p.Graph.Value(p.Tensors[p.Outputs[i]].Value).Name)
	if list := turnedBy([]*tensor.Tensor{y}, inverse(axes)); list != nil {
		y = list[0]
	}
	return !fit([]*tensor.Tensor{x}, []*tensor.Tensor{y}) || cube(x.Shape) || alike(x, y)
}

// cube reports whether nothing but the numbers tells where the channels are.
func cube(d []int) bool { return len(d) == 4 && d[1] == d[2] && d[2] == d[3] && d[1] > 1 }

// outputs lists the sums of integers that the outputs of a program are made of; nil where they are made of others.
func (s *side) outputs(sums map[computed]*sum) []*sum {
	byTensor, list := map[string]*sum{}, make([]*sum, len(s.program.Outputs))
	for _, x := range sums {
		byTensor[x.tensor] = x
	}
	from := map[lower.TensorID]lower.TensorID{}
	for i := range s.program.Steps {
		if step := &s.program.Steps[i]; step.Op.Name() == "Dequantize" {
			from[step.Outputs[0]] = step.Inputs[0]
		}
	}
	for i, id := range s.program.Outputs {
		if of, ok := from[id]; ok {
			id = of
		}
		list[i] = byTensor[s.program.Tensors[id].Name]
	}
	return list
}

// twins are two programs of one network.
type twins struct {
	first, second side
	backend       program.Backend
	threads       int
}

type side struct {
	program  *lower.Program
	axes     map[string][]int  // of tensors by name, where they are not those of the first
	executor *program.Executor // nil before its first run
}

// order is how the axes of a tensor of that name stand to those of the first program's, nil: as there. Channels that are last of four
// axes are seen by shape and numbers: a reader may have brought them to the front.
func (s *side) order(name string) []int {
	perm, ok := s.axes[name]
	if !ok {
		perm = s.axes[valueOf(name)]
	}
	if slices.Equal(perm, []int{0, 2, 3, 1}) {
		return nil
	}
	return perm
}

func (t *twins) close() {
	for _, s := range []side{t.first, t.second} {
		if s.executor != nil {
			_ = s.executor.Close() // what fails in it would have failed in a run
		}
	}
}

// run runs one of them. at sees the steps that compute in float, and may return other outputs;
// what is behind them is then the same in both.
func (t *twins) run(ctx context.Context, x *side, feeds map[string]*tensor.Tensor,
	at func(step *lower.Step, out []*tensor.Tensor) ([]*tensor.Tensor, error)) (r ran, err error) {
	if x.executor == nil {
		if x.executor, err = program.New(x.program, t.backend, t.threads); err != nil {
			return r, err
		}
	}
	s := newSummer(x)
	r.outs, err = x.executor.Run(ctx, turned(x.program, feeds),
		func(step *lower.Step, _, out []*tensor.Tensor) (replaced []*tensor.Tensor, err error) {
			if at != nil && inFloat(step) {
				if replaced, err = at(step, out); replaced != nil {
					s.exact[step.ID], out = true, replaced
				}
			}
			s.see(step, out)
			return replaced, err
		})
	r.sums = s.sums
	return r, err
}

// turned are the inputs of a program of feeds that may have their channels at the other end.
func turned(p *lower.Program, feeds map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	list := make(map[string]*tensor.Tensor, len(feeds))
	for name, x := range feeds {
		list[name] = x
	}
	for _, id := range p.Inputs {
		t := &p.Tensors[id]
		x := feeds[t.Name]
		if x == nil || len(x.Shape) != len(t.Shape) || len(x.Shape) != 3 && len(x.Shape) != 4 || accepts(t.Shape, x.Shape) {
			continue
		}
		for _, y := range []*tensor.Tensor{movedFirst(x), movedLast(x)} {
			if accepts(t.Shape, y.Shape) {
				list[t.Name] = y
				break
			}
		}
	}
	return list
}

// accepts reports whether a tensor may have a shape.
func accepts(s graph.Shape, dims []int) bool {
	for i, d := range dims {
		if s[i].Known() && s[i].N != int64(d) {
			return false
		}
	}
	return true
}

// movedLast brings the second of four axes to the end, movedFirst the last to the second.
func movedLast(x *tensor.Tensor) *tensor.Tensor {
	d := x.Shape
	if len(d) == 3 {
		return &tensor.Tensor{DType: x.DType, Shape: []int{d[0], d[2], d[1]}, Data: movedLast(ofPlanes(x)).Data}
	}
	return &tensor.Tensor{DType: x.DType, Shape: []int{d[0], d[2], d[3], d[1]}, Data: x.ToRowMajor().ToChannelsLast().Data}
}

// ofPlanes is a tensor of three axes with a fourth of length 1.
func ofPlanes(x *tensor.Tensor) *tensor.Tensor {
	return &tensor.Tensor{DType: x.DType, Shape: append(slices.Clone(x.Shape), 1), Data: x.ToRowMajor().Data}
}

func movedFirst(x *tensor.Tensor) *tensor.Tensor {
	d := x.Shape
	if len(d) == 3 { // the same exchange of the two last axes
		return movedLast(x)
	}
	flat := &tensor.Tensor{DType: x.DType, Shape: []int{d[0], d[1] * d[2], d[3], 1}, Data: x.ToRowMajor().Data}
	return &tensor.Tensor{DType: x.DType, Shape: []int{d[0], d[3], d[1], d[2]}, Data: flat.ToChannelsLast().Data}
}

// lockstep runs both with the numbers that the first computes in float. What the second does not compute in float, as a pool between a
// DEQUANTIZE and a QUANTIZE that a reader takes for one on integers, stays something in float that comes before.
func (t *twins) lockstep(ctx context.Context, feeds map[string]*tensor.Tensor) ([]both, error) {
	kept, met := map[string][]*tensor.Tensor{}, map[string]bool{}
	keep := func(step *lower.Step, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		list := make([]*tensor.Tensor, len(out))
		for i, x := range out {
			if x != nil {
				list[i] = x.Clone()
			}
		}
		for _, k := range t.first.knownBy(step) {
			kept[k.name] = turnedBy(list, inverse(k.perm))
		}
		return list, nil
	}
	want, err := t.run(ctx, &t.first, feeds, keep)
	if err != nil {
		return nil, err
	}
	got, err := t.run(ctx, &t.second, feeds, func(step *lower.Step, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		for _, k := range t.second.knownBy(step) {
			own := turnedBy(out, inverse(k.perm))
			list := placed(kept[k.name], own)
			if list == nil {
				continue
			}
			for i, x := range list {
				if x != nil && !alike(x, own[i]) {
					return nil, fmt.Errorf("the program of the file computes other numbers than the plan at %q", k.name)
				}
			}
			met[k.name] = true
			return turnedBy(list, k.perm), nil
		}
		return nil, nil
	})
	if err == nil && len(met) < len(kept) {
		want, err = t.run(ctx, &t.first, feeds, func(step *lower.Step, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if !slices.ContainsFunc(t.first.knownBy(step), func(k known) bool { return met[k.name] }) {
				return nil, nil
			}
			return keep(step, out)
		})
	}
	return paired(want.sums, got.sums), err
}

// lastBits are those of sums of numbers near 1 that cancel.
const lastBits = 4.0 / (1 << 23)

// alike reports whether the difference of two tensors has little of their energy, or is lastBits.
func alike(x, y *tensor.Tensor) bool {
	a, b := x.ToRowMajor(), y.ToRowMajor()
	var differ, all float64
	add := func(p, q float64) {
		all += min(p*p, math.MaxFloat32) // an infinity is alike
		if p != q && (p == p || q == q) {
			differ += (p - q) * (p - q)
		}
	}
	if a.DType == tensor.Float32 {
		for i, p := range a.F32() {
			add(float64(p), float64(b.F32()[i]))
		}
	} else if codes := b.Integers(); codes != nil {
		for i, p := range a.Integers() {
			add(float64(p), float64(codes[i]))
		}
	}
	return differ <= 1e-4*all+float64(a.Len())*lastBits*lastBits
}
