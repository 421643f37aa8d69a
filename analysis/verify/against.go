package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// Recording is what another engine or a board computed for one input: tensors by name.
type Recording interface {
	// Tensor returns the tensor of a name, nil where it was not recorded.
	Tensor(name string) (*tensor.Tensor, error)
}

// AgainstConfig says what recorded tensors are compared with.
type AgainstConfig struct {
	Set     *tqc.Set
	Program *lower.Program
	// Others are programs of the same plan under other profiles, which are tried as well.
	Others   []*lower.Program
	Backend  program.Backend // computes the steps of Others; the zero value is the reference
	Threads  int
	Progress func(done int) // steps done, of all programs; may be nil
}

// Against computes every step again from recorded tensors and compares the result with what was recorded, under rule (b): what the
// engine's own float32 operations may be off is part of the bound. A tensor that was not recorded is replaced by the program's own,
// if what it needs is there; steps that need more are left out. A recording without any of the program's tensors is an error.
func Against(ctx context.Context, rec Recording, cfg AgainstConfig) (*analysis.Verification, error) {
	c, err := check(cfg.Set, cfg.Program)
	if err != nil {
		return nil, err
	}
	v := &analysis.Verification{Profile: c.profile.Name, Backend: "recorded", Samples: 1, Static: c.static, Measured: c.profile.Saturates}
	a := &again{checked: c, tallies: make([][]*tally, len(cfg.Program.Steps)), computer: &computer{ctx, max(cfg.Threads, 1)}}
	done := 0
	tick := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done)
		}
	}
	fit, missing, err := replay(ctx, rec, cfg.Program, program.Reference, cfg.Threads, func(s *lower.Step, in, computed, recorded []*tensor.Tensor) error {
		tick()
		return a.step(s, in, recorded)
	})
	if err != nil {
		return nil, err
	}
	if fit.Compared == 0 {
		return nil, errors.New("verify: none of the plan's tensors was recorded together with what it is computed from")
	}
	v.Missing = missing
	v.Fits = []analysis.ProfileFit{fit}
	backend := cfg.Backend
	if backend.Name == "" {
		backend = program.Reference
	}
	for _, p := range cfg.Others {
		fit, _, err := replay(ctx, rec, p, backend, cfg.Threads, func(*lower.Step, []*tensor.Tensor, []*tensor.Tensor, []*tensor.Tensor) error {
			tick()
			return nil
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			fit = analysis.ProfileFit{Profile: p.Profile.Name, Why: err.Error()}
		}
		v.Fits = append(v.Fits, fit)
	}
	slices.SortStableFunc(v.Fits, func(a, b analysis.ProfileFit) int { return sign(a.Share() - b.Share()) })
	c.sum(v, a.tallies)
	v.First = c.earliest(a.tallies, v.Verdict == analysis.VerdictDifferent)
	return v, nil
}

// replay walks a program along recorded tensors; see is shown every step that could be computed again.
func replay(ctx context.Context, rec Recording, p *lower.Program, b program.Backend, threads int,
	see func(s *lower.Step, in, computed, recorded []*tensor.Tensor) error) (fit analysis.ProfileFit, missing []string, err error) {
	fit.Profile = p.Profile.Name
	x, err := program.New(p, b, max(threads, 1))
	if err != nil {
		return fit, nil, err
	}
	values := make([]*tensor.Tensor, len(p.Tensors))
	for i := range p.Tensors {
		values[i] = p.Tensors[i].Const
	}
	for _, id := range p.Inputs {
		if values[id], err = recorded(rec, &p.Tensors[id]); err != nil {
			return fit, nil, err
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if err := ctx.Err(); err != nil {
			return fit, nil, context.Cause(ctx)
		}
		in := make([]*tensor.Tensor, len(s.Inputs))
		complete := true
		for k, id := range s.Inputs {
			in[k] = values[id]
			complete = complete && in[k] != nil
		}
		var computed []*tensor.Tensor
		if complete {
			if computed, err = x.RunStep(ctx, s.ID, in); err != nil {
				return fit, nil, err
			}
		}
		known := make([]*tensor.Tensor, len(s.Outputs))
		for k, id := range s.Outputs {
			if id == lower.NoTensor {
				continue
			}
			if known[k], err = recorded(rec, &p.Tensors[id]); err != nil {
				return fit, nil, err
			}
			switch {
			case known[k] != nil:
				values[id] = known[k]
			case computed != nil:
				values[id] = computed[k]
			}
			if known[k] == nil && p.Tensors[id].Quantized() {
				missing = append(missing, p.Tensors[id].Name)
			}
			if known[k] != nil && computed != nil && p.Tensors[id].Quantized() {
				if known[k].Len() != computed[k].Len() {
					return fit, nil, fmt.Errorf("verify: %q was recorded as %s, it is %s", p.Tensors[id].Name, known[k].Type(), computed[k].Type())
				}
				count(&fit, codesOf(computed[k]), codesOf(known[k]))
			}
		}
		if complete {
			if err := see(s, in, computed, known); err != nil {
				return fit, nil, err
			}
		}
	}
	return fit, missing, nil
}

// count compares what a profile computes with what was recorded.
func count(f *analysis.ProfileFit, want, got []int32) {
	f.Compared += int64(len(want))
	for i, q := range want {
		if d := int64(q) - int64(got[i]); d != 0 {
			f.Different++
			f.Max = max(f.Max, d, -d)
		}
	}
}

// recorded returns a recorded tensor in the program's type, nil where there is none. Integers may come in any type that holds them.
func recorded(rec Recording, t *lower.Tensor) (*tensor.Tensor, error) {
	got, err := rec.Tensor(t.Name)
	if err != nil || got == nil {
		return nil, err
	}
	got = got.ToRowMajor()
	if got.DType == t.DType {
		return got, nil
	}
	wrong := fmt.Errorf("verify: %q was recorded as %s, the program has %s", t.Name, got.Type(), t.DType)
	values, ok := wholes(got)
	if !ok || !t.Quantized() {
		return nil, wrong
	}
	out := tensor.New(t.DType, got.Shape...)
	for i, q := range values {
		fits := true
		switch d := out.Data.(type) {
		case []int8:
			d[i] = int8(q)
			fits = int64(d[i]) == q
		case []uint8:
			d[i] = uint8(q)
			fits = int64(d[i]) == q
		case []int16:
			d[i] = int16(q)
			fits = int64(d[i]) == q
		case []uint16:
			d[i] = uint16(q)
			fits = int64(d[i]) == q
		}
		if !fits {
			return nil, fmt.Errorf("%w: element %d is %d", wrong, i, q)
		}
	}
	return out, nil
}

// wholes reads a tensor as integers, if that is what it holds.
func wholes(t *tensor.Tensor) ([]int64, bool) {
	if d := t.I64(); d != nil {
		return d, true
	}
	out := make([]int64, t.Len())
	if x := t.F32(); x != nil {
		for i, v := range x {
			if out[i] = int64(v); float32(out[i]) != v {
				return nil, false
			}
		}
		return out, true
	}
	codes := codesOf(t)
	for i, q := range codes {
		out[i] = int64(q)
	}
	return out, codes != nil
}

// again compares recorded tensors with exact values.
type again struct {
	*checked
	computer *computer
	tallies  [][]*tally
}

func (a *again) step(s *lower.Step, in, known []*tensor.Tensor) error {
	op := a.operations[s.ID]
	a.tallies[s.ID] = make([]*tally, len(s.Outputs))
	if op == nil || !slices.ContainsFunc(known, func(t *tensor.Tensor) bool { return t != nil }) {
		return nil
	}
	expected, err := op.exact(a.computer, in)
	if err != nil {
		return err
	}
	extra, err := a.engine(op, in)
	if err != nil {
		return err
	}
	for k, e := range expected {
		if e == nil || known[k] == nil || e.real { // what an engine does in float is not held
			continue
		}
		own := e.bound
		y := float64(a.grids[s.Outputs[k]].Scale)
		e.bound = func(i int) float64 { return own(i) + extra(i)/y + 16*float32Error*(abs(e.value[i])+1) }
		t := &tally{layer: a.layers[s.ID], output: k, by: "simulation"}
		t.compare(e, known[k])
		a.tallies[s.ID][k] = t
	}
	return nil
}

// engine is what an engine that sums in float32 may be off, in real units: 4*sqrt(n)*2^-24 of the magnitudes of n terms, which holds
// for all but one sum in a thousand even if every rounding error were as large as it can be (Higham and Mary, A new approach to
// probabilistic rounding error analysis, 2019, with lambda 4). Integer profiles sum exactly.
func (a *again) engine(op operation, in []*tensor.Tensor) (func(i int) float64, error) {
	none := func(int) float64 { return 0 }
	if a.profile.Form != qmath.FloatDivide {
		return none, nil
	}
	switch op := op.(type) {
	case *linear:
		size, terms, err := op.magnitudes(a.computer, in)
		if err != nil {
			return nil, err
		}
		unit := 4 * math.Sqrt(float64(terms)) * 0x1p-24
		return func(i int) float64 { return unit * size[i] }, nil
	case *average:
		n := float64(max(op.most, 1))
		reach := max(float64(op.x.QMax-op.x.ZeroPoint), float64(op.x.ZeroPoint-op.x.QMin)) * float64(op.x.Scale)
		return func(int) float64 { return 4 * math.Sqrt(n) * 0x1p-24 * reach }, nil
	}
	return none, nil
}

// magnitudes returns the sum of the magnitudes of the products of every output, in real units, and how many there are.
func (l *linear) magnitudes(c *computer, in []*tensor.Tensor) ([]float64, int, error) {
	copied := *l
	x := tensor.New(tensor.Int16, in[0].Shape...)
	for i, q := range codesOf(in[0]) {
		d := q - l.x.ZeroPoint
		x.Data.([]int16)[i] = int16(max(d, -d))
	}
	copied.x.ZeroPoint = 0
	inputs := []*tensor.Tensor{x}
	terms := 0
	if w := l.weights; w != nil {
		positive := *w
		positive.codes, positive.zero = make([]int32, len(w.codes)), make([]int32, len(w.zero))
		for i := range w.codes {
			d := w.centered(i)
			positive.codes[i] = max(d, -d)
		}
		copied.weights = &positive
		terms = len(w.codes) / max(len(w.scale), 1)
	} else {
		r := tensor.New(tensor.Int16, in[1].Shape...)
		for i, q := range codesOf(in[1]) {
			d := q - l.w.ZeroPoint
			r.Data.([]int16)[i] = int16(max(d, -d))
		}
		grid := *l.w
		grid.ZeroPoint = 0
		copied.w = &grid
		inputs = append(inputs, r)
		terms = l.terms(in[0].Shape)
	}
	s, err := copied.accumulate(c, inputs)
	if err != nil {
		return nil, 0, err
	}
	channel := s.channel(l)
	for i := range s.acc {
		s.acc[i] *= float64(l.x.Scale) * float64(l.factor(channel(i)))
	}
	return s.acc, terms, nil
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}
