package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	worktune "qwb/internal/work/tune"
)

// mostTrials is how many commands Try runs unless told otherwise; what is not tried by then stays, with its prediction alone.
const mostTrials = 12

// Try runs each command that is advised on a copy of the plan in memory and measures what it does to the error of the outputs. Where it
// does not help there, others for the same cause are tried; where none does, the advice is dropped.
func (a *Adviser) Try(ctx context.Context, set *data.Set, r *analysis.Report) error {
	if len(r.Advice) == 0 {
		return nil
	}
	samples, kind, err := a.judges(ctx, set)
	if err != nil {
		return err
	}
	before, err := a.outputsOf(ctx, a.Planned, samples)
	if err != nil {
		return err
	}
	left := cmp.Or(a.o.Trials, mostTrials)
	a.Note("advice: each of %s is run on a copy of the plan and measured on %s; at most %d trials", plain.Count(len(r.Advice), "command"),
		plain.Count(len(samples), "sample"), left)
	tick, finish := a.Progress("try", len(r.Advice))
	defer finish()
	for i := range r.Advice {
		x := &r.Advice[i]
		if len(a.o.Causes) > 0 && !slices.Contains(a.o.Causes, x.Cause) {
			continue
		}
		for c := a.Cures[x.Command]; c != nil && left > 0; c = a.Cures[x.Command] {
			left--
			if x.Trial, err = a.trial(ctx, c, samples, before); err != nil {
				return err
			}
			x.Trial.Samples, x.Trial.HeldOut, x.Trial.Before = len(samples), kind, analysis.NewNSR(before.Estimate())
			if helped(x) {
				break
			}
			a.Detail("advice: %s: tried, and it does not help: %s", x.Command,
				cmp.Or(x.Trial.Failed, fmt.Sprintf("NSR %g -> %g", x.Trial.Before.NSR, x.Trial.Measured.NSR)))
			if len(x.Others) == 0 {
				break
			}
			x.Command, x.Others = x.Others[0], x.Others[1:]
			if predicted, ok := a.Predicted[x.Command]; ok {
				x.Predicted = &predicted
			}
		}
		tick(i + 1)
	}
	r.Advice = slices.DeleteFunc(r.Advice, func(x analysis.Advice) bool { return !helped(&x) })
	return nil
}

// helped reports whether what is advised did help where it was tried, if it was.
func helped(x *analysis.Advice) bool {
	return x.Trial == nil || x.Trial.Failed == "" && x.Trial.Change < 0
}

// judges are the samples by which a trial is judged: those that neither calibration nor tuning has seen; where the data have fewer than two
// of them, the half that tuning holds out; where that has fewer, all, which are not held out.
func (a *Adviser) judges(ctx context.Context, set *data.Set) ([]*exec.Sample, string, error) {
	all, err := samples.First(ctx, set.Iterator(), set.Len())
	if err != nil {
		return nil, "", err
	}
	seen := planning.SeenBy(a.Derivation.Stats)
	var unseen []*exec.Sample
	for _, s := range all {
		if !seen[s.Hash] {
			unseen = append(unseen, s)
		}
	}
	_, held := samples.Halved(all)
	switch {
	case len(unseen) > 1:
		return unseen, analysis.HeldOutUnseen, nil
	case len(held) > 1:
		return held, analysis.HeldOutHalf, nil
	}
	return all, "", nil
}

// outputsOf measures a plan on samples: by its simulation, or by its integers where the profile saturates.
func (a *Adviser) outputsOf(ctx context.Context, p *planning.Planned, samples []*exec.Sample) (analysis.Losses, error) {
	ev, err := analysis.NewEvaluator(ctx, p.Reference, func() exec.Iterator { return &exec.InMemory{Samples: samples} }, a.o.Threads, 0,
		a.o.Parts...)
	if err != nil {
		return nil, err
	}
	if a.Facts.Integers > 0 {
		return a.integerLosses(ctx, ev, p.Graph, p.Set)
	}
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	return ev.Losses(ctx, q)
}

// trial runs one cure. What the command fails with is part of the outcome.
func (a *Adviser) trial(ctx context.Context, c *advise.Cure, samples []*exec.Sample, before analysis.Losses) (*analysis.CureTrial, error) {
	p := *a.Project
	p.Store, p.Events = &besides{&store.Scratch{Base: a.Files()}, a.Planned.Path}, nil
	failed := a.carryOut(ctx, &p, c)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if failed != nil {
		return &analysis.CureTrial{Failed: failed.Error()}, nil
	}
	q, err := planning.OpenPlan(&open.Job{Project: &p, Ctx: ctx}, p.Plan)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	after, err := a.outputsOf(ctx, q, samples)
	if err != nil {
		return nil, err
	}
	change := analysis.Paired(before.PerSample(), after.PerSample())
	t := &analysis.CureTrial{Measured: analysis.NewNSR(after.Estimate()), Change: change.Mean}
	if !math.IsInf(change.Error, 0) {
		t.ChangeError = &change.Error
	}
	return t, nil
}

// carryOut does what the command of a cure does.
func (a *Adviser) carryOut(ctx context.Context, p *open.Project, c *advise.Cure) error {
	j := &open.Job{Project: p, Ctx: ctx}
	switch {
	case len(c.Words) > 0:
		_, err := planning.Set(ctx, j, a.selected(c), c.Words, a.o.Threads)
		return err
	case c.Method != "":
		r, err := worktune.Run(ctx, j, worktune.Options{Methods: []string{c.Method}, Threads: a.o.Threads, Memory: a.o.Memory}, false)
		err = planning.Located(ctx, j, err, open.DataOptions{}, a.o.Threads)
		if err == nil && r.Overlay == "" {
			err = fault.Checkf("tune kept nothing: on %d held-out samples the error of the outputs does not fall by more than its error bar",
				r.HeldOut)
		}
		return err
	case c.More:
		o, _ := a.recalibration()
		_, err := calibrate.Run(ctx, j, *o)
		return err
	}
	return fault.Checkf("nothing to carry out")
}

// besides is a scratch of which the operating system knows the model only, so that nothing, not even what an interrupted tuning leaves,
// gets onto the disk.
type besides struct {
	*store.Scratch
	model string
}

func (b *besides) Path(name string) (string, bool) {
	if name != b.model {
		return "", false
	}
	return b.Scratch.Path(name)
}
