package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

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
// if what it needs is there; steps that need more are left out. Where such a tensor is only moved, joined or pooled before the next
// recorded one, either neighbour of a rounding boundary is allowed there too. What reads another one that was not recorded is compared only
// as far as it is equal: a difference may be that of the tensor that nobody saw.
// A recording without any of the program's tensors is an error.
func Against(ctx context.Context, rec Recording, cfg AgainstConfig) (*analysis.Verification, error) {
	c, err := check(cfg.Set, cfg.Program, cfg.Threads)
	if err != nil {
		return nil, err
	}
	v := &analysis.Verification{Profile: c.profile.Name, Backend: "recorded", Samples: 1, Static: c.static, Measured: c.profile.Saturates}
	a := &again{checked: c, tallies: make([][]*tally, len(cfg.Program.Steps)), computer: &computer{ctx: ctx, threads: max(cfg.Threads, 1)},
		open: map[lower.TensorID]spread{}, unsure: map[lower.TensorID]bool{}}
	done := 0
	tick := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done)
		}
	}
	src, err := newTape(rec, cfg.Program)
	if err != nil {
		return nil, err
	}
	fit, err := replay(ctx, src, cfg.Program, program.Reference, cfg.Threads,
		func(s *lower.Step, in, computed, recorded []*tensor.Tensor) error {
			tick()
			return a.step(s, in, computed, recorded)
		})
	if err != nil {
		return nil, err
	}
	v.Missing, v.OffGrid, v.Recorded = src.missing, src.off, src.recorded
	if fit.Compared == 0 && len(v.OffGrid) == 0 {
		return nil, errors.New("verify: none of the plan's tensors was recorded together with what it is computed from")
	}
	v.Fits = []analysis.ProfileFit{fit}
	backend := cfg.Backend
	if backend.Name == "" {
		backend = program.Reference
	}
	for _, p := range cfg.Others {
		fit, err := replay(ctx, &tape{rec: rec, p: p, last: src.last}, p, backend, cfg.Threads,
			func(*lower.Step, []*tensor.Tensor, []*tensor.Tensor, []*tensor.Tensor) error {
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
	arrange.Stable(v.Fits, func(a, b analysis.ProfileFit) int { return sign(a.Share() - b.Share()) })
	c.sum(v, a.tallies)
	v.BitExact = &analysis.BitExact{Profile: c.profile.Name, Compared: fit.Compared, Different: fit.Different, Max: fit.Max,
		Holds: fit.Compared > 0 && fit.Different == 0, Open: !c.exactly()}
	switch {
	case fit.Compared == 0:
		v.Verdict = analysis.VerdictNothing
	case v.Holds() && fit.Different > 0 && c.exactly():
		v.Verdict = analysis.VerdictOther
	case v.Holds() && len(v.OffGrid) > 0:
		v.Verdict = analysis.VerdictPartial
	}
	v.First = c.earliest(a.tallies, v.Verdict == analysis.VerdictDifferent)
	return v, nil
}

// exactly reports whether the profile says every integer: one that sums in float32 leaves the order to the engine, one that saturates
// the pairs.
func (c *checked) exactly() bool { return c.profile.Form != qmath.FloatDivide && !c.profile.Saturates }

// replay walks a program along recorded tensors; see is shown every step that could be computed again.
func replay(ctx context.Context, src *tape, p *lower.Program, b program.Backend, threads int,
	see func(s *lower.Step, in, computed, recorded []*tensor.Tensor) error) (fit analysis.ProfileFit, err error) {
	fit.Profile = p.Profile.Name
	x, err := program.New(p, b, max(threads, 1))
	if err != nil {
		return fit, err
	}
	defer x.Close()
	values := make([]*tensor.Tensor, len(p.Tensors))
	for i := range p.Tensors {
		values[i] = p.Tensors[i].Const
	}
	for _, id := range p.Inputs {
		if values[id], err = src.tensor(id); err != nil {
			return fit, err
		}
	}
	guessed := make([]bool, len(p.Tensors)) // values that the program computed and no engine showed
	for i := range p.Steps {
		s := &p.Steps[i]
		if err := ctx.Err(); err != nil {
			return fit, context.Cause(ctx)
		}
		in := make([]*tensor.Tensor, len(s.Inputs))
		complete, guess := true, false
		for k, id := range s.Inputs {
			in[k] = values[id]
			complete, guess = complete && in[k] != nil, guess || guessed[id]
		}
		var computed []*tensor.Tensor
		if complete {
			if computed, err = x.RunStep(ctx, s.ID, in); err != nil {
				return fit, err
			}
		}
		known := make([]*tensor.Tensor, len(s.Outputs))
		for k, id := range s.Outputs {
			if id == lower.NoTensor {
				continue
			}
			if known[k], err = src.tensor(id); err != nil {
				return fit, err
			}
			switch {
			case known[k] != nil:
				values[id] = known[k]
			case computed != nil:
				values[id], guessed[id] = computed[k], guess || !converts(s)
			}
			switch {
			case !p.Tensors[id].Quantized():
			case known[k] == nil:
				src.missing = append(src.missing, p.Tensors[id].Name)
			default:
				src.recorded++
			}
			if known[k] != nil && computed != nil && p.Tensors[id].Quantized() && !isSimulated(s) {
				if known[k].Len() != computed[k].Len() {
					return fit, fmt.Errorf("verify: %q was recorded as %s, it is %s", p.Tensors[id].Name, known[k].Type(), computed[k].Type())
				}
				count(&fit, computed[k].Integers(), known[k].Integers(), guess)
			}
		}
		if complete {
			if err := see(s, in, computed, known); err != nil {
				return fit, err
			}
		}
	}
	return fit, nil
}

// converts reports whether a step computes what every profile does: quantized inputs, and what is only moved.
func converts(s *lower.Step) bool {
	switch s.Op.(type) {
	case *lower.Quantize, *lower.Dequantize, *lower.Move, *lower.MaxPool:
		return true
	}
	return false
}

// count compares what a profile computes with what was recorded. A difference behind a guess is not one of this step.
func count(f *analysis.ProfileFit, want, got []int32, guess bool) {
	if guess && !slices.Equal(want, got) {
		return
	}
	f.Compared += int64(len(want))
	for i, q := range want {
		if d := int64(q) - int64(got[i]); d != 0 {
			f.Different++
			f.Max = max(f.Max, d, -d)
		}
	}
}

// again compares recorded tensors with exact values.
type again struct {
	*checked
	computer *computer
	tallies  [][]*tally
	open     map[lower.TensorID]spread // tensors that were not recorded
	// unsure are tensors that were not recorded and of which no spread is known: another engine may have computed others.
	unsure map[lower.TensorID]bool
}

// blind reports whether a step reads what nobody knows: a tensor of unsure, or an open one by an operation that may fall where it rises.
func (a *again) blind(op operation, s *lower.Step) bool {
	for _, id := range s.Inputs {
		if _, open := a.open[id]; a.unsure[id] || open && !rising(op) {
			return true
		}
	}
	return false
}

func (a *again) step(s *lower.Step, in, computed, known []*tensor.Tensor) error {
	op := a.operations[s.ID]
	a.tallies[s.ID] = make([]*tally, len(s.Outputs))
	blind := a.blind(op, s)
	if blind {
		for k, id := range s.Outputs {
			if id != lower.NoTensor && known[k] == nil {
				a.unsure[id] = true
			}
		}
	}
	if op == nil {
		return nil
	}
	expected, err := a.expect(op, a.computer, in)
	if err != nil {
		return err
	}
	extra, err := a.engine(op, in)
	if err != nil {
		return err
	}
	if err := a.widen(op, s, in, expected); err != nil {
		return err
	}
	for k, e := range expected {
		if e == nil || e.real { // what an engine does in float is not held
			continue
		}
		own := e.bound
		y := float64(a.grids[s.Outputs[k]].Scale)
		e.bound = func(i int) float64 { return own(i) + extra(i)/y + 16*float32Error*(math.Abs(e.value[i])+1) }
		if known[k] == nil && blind {
			continue
		}
		if known[k] == nil {
			a.leaveOpen(s.Outputs[k], e, computed[k])
			continue
		}
		t := &tally{layer: a.layers[s.ID], output: k, by: "simulation"}
		if t.compare(e, known[k]); blind && t.different > 0 {
			continue
		}
		a.tallies[s.ID][k] = t
	}
	return nil
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
