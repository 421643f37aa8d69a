package tune

import (
	"context"
	"fmt"
	"maps"

	"qwb/analysis"
)

// Where samples are too few to be halved for good, the halves take turns: each method is run on two benches, each of which fits on one half
// and judges on the other, from the first method to the last, so that no sample is ever judged by what was fitted on it. Operators pass the
// same bar in each as they would alone, at Student's quantile of so few samples. The errors of both together, over all samples, decide
// about the method, with wider error bars; see analysis.CrossedError. A method that passes is then fitted on all samples: operator by
// operator, where one of the halves kept what is proposed. Ranges of activations are fitted, too: those that saw a sample do not clip it,
// however little room a change leaves to others, so each bench has them of what it fits on; see Bench.Apart.

// Spread is by how much error bars of the outputs are wider than those of samples that are independent of each other.
func (b *Bench) Spread() float64 {
	if b.Halves != nil {
		return analysis.CrossedError
	}
	return 1
}

// JudgedBy are the blocks of the samples that judge, in the order of their losses.
func (b *Bench) JudgedBy() analysis.Blocks {
	held := b.Held
	if b.turns != nil {
		held = nil
		for _, f := range b.turns {
			held = append(held, f.Held...)
		}
	}
	return analysis.BlocksOf(held)
}

// cross makes a bench for each half that fits.
func (b *Bench) cross(ctx context.Context) error {
	b.turns = nil
	if b.Halves == nil {
		return nil
	}
	for i := range b.Halves {
		f := b.copied()
		if b.Apart != nil {
			other, err := b.Apart(ctx, b.Halves[i])
			if err != nil {
				return fmt.Errorf("tune: ranges of one half of the samples: %w", err)
			}
			f = f.on(other)
		}
		f.Fit, f.Held, f.turn, f.Resum = b.Halves[i], b.Halves[1-i], true, true
		f.Halves, f.Resume = nil, nil
		b.turns = append(b.turns, f)
	}
	return nil
}

// copied is a bench that changes nothing of this one, and saves nothing.
func (b *Bench) copied() *Bench {
	f := *b
	f.Graph, f.Set, f.Frozen = b.Graph.Clone(), b.Set.Clone(), maps.Clone(b.Frozen)
	f.Save, f.point, f.done = nil, nil, nil
	return &f
}

// outcome are the errors of the outputs on samples that were not fitted on.
func (b *Bench) outcome(ctx context.Context) (analysis.Losses, error) {
	if b.turns == nil {
		return b.Losses(ctx)
	}
	return b.ofTurns(func(f *Bench) (analysis.Losses, error) { return f.Losses(ctx) })
}

// ofTurns are the losses of all turns, one after the other.
func (b *Bench) ofTurns(losses func(f *Bench) (analysis.Losses, error)) (all analysis.Losses, err error) {
	for _, f := range b.turns {
		list, err := losses(f)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// inTurns runs a method on the halves, and where it is confirmed on all samples; else nothing changes.
func (b *Bench) inTurns(ctx context.Context, m *Method, before analysis.Losses) (*Report, analysis.Losses, error) {
	b.stage, b.before, b.Resume = Progress{Method: m.Name, Stage: len(b.point.reports) + 1}, analysis.NewNSR(before.Estimate()), nil
	if err := b.pass(nil, false); err != nil {
		return nil, nil, err
	}
	var next []*Bench
	var after analysis.Losses
	r := &Report{Layers: []Layer{}}
	only := verdicts{}
	for i, f := range b.turns {
		f = f.copied()
		f.stage, f.before, f.Progress = b.stage, b.before, b.part(i)
		one, err := m.run(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		losses, err := f.Losses(ctx)
		if err != nil {
			return nil, nil, err
		}
		b.forwards(float64(len(f.Held)))
		next, after = append(next, f), append(after, losses...)
		if only.add(one); i == 0 || one.kept() > r.kept() {
			r = one
		}
		// the other half would have to outweigh it
		if i == 0 && !b.Force && !(analysis.Paired(before[:len(losses)].PerSample(), losses.PerSample()).Mean < 0) {
			nsr := analysis.NewNSR(before.Estimate())
			r.Name, r.Before, r.After, r.Typical, r.Kept, r.Note = m.Name, nsr, nsr, 1, 0, "taken back: on the half that "+
				"judged first the error does not fall"
			r.takeBack()
			return r, before, nil
		}
	}
	r.Name = m.Name
	if b.confirm(r, before, after); r.Kept == 0 {
		return r, before, nil
	}
	f := b.copied()
	if f.Progress = b.part(len(b.turns)); m.Run == nil {
		f.only = only
	}
	one, err := m.run(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	if f.only = nil; one.kept() == 0 {
		r.Layers, r.Kept, r.After, r.Change, r.Typical, r.Note = one.Layers, 0, r.Before, 0, 1, "taken back: on all samples it changes nothing"
		return r, before, nil
	}
	point, save, progress := b.point, b.Save, b.Progress
	*b = *f
	b.point, b.Save, b.Progress, b.turns = point, save, progress, next
	r.Layers, r.Kept = one.Layers, one.kept()
	return r, after, nil
}

// part tells of the progress of one of the runs of a method.
func (b *Bench) part(i int) func(Progress) {
	if b.Progress == nil {
		return nil
	}
	return func(p Progress) {
		p.Done, p.Total = p.Done+i*p.Total, (len(b.turns)+1)*p.Total
		b.Progress(p)
	}
}

// verdicts names what was kept on halves: by operator and what proposed it.
type verdicts map[[2]string]bool

func (v verdicts) add(r *Report) {
	for i := range r.Layers {
		for _, s := range r.Layers[i].Tried {
			if s.Kept {
				v[[2]string{r.Layers[i].Node, s.By}] = true
			}
		}
	}
}

// allowed are the trials that may be kept.
func (b *Bench) allowed(node string, trials []*trial) []*trial {
	if b.only == nil {
		return trials
	}
	var list []*trial
	for _, t := range trials {
		if b.only[[2]string{node, t.by}] {
			list = append(list, t)
		}
	}
	return list
}
