package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"qwb/analysis"
	"qwb/quantizer/rewrite"
)

// structural is a list of steps that is worth trying after those that the bench has.
type structural struct {
	By    string // what made it, as the report names it
	Nodes []string
	Steps []rewrite.Step
	// Refines: it is another form of those before it, tried only where one of them lowers the error.
	Refines bool
}

// restructure tries structures one by one and leaves in the bench the best of them if it lowers the held-out error of the outputs: paired,
// sample by sample, by more than the error bar at the number of standard errors that all trials together need: in the mean, or in the
// typical sample where the mean does not rise, as in Judge. Each side is judged after a correction of its biases, so that nothing is kept
// for what a correction gives as well; of what is kept the corrected biases stay. A structure that does not fit, or cannot be quantized as
// the plan decides, is declined with the reason.
func (b *Bench) restructure(ctx context.Context, list []structural) (*Report, error) {
	report := &Report{Layers: []Layer{}}
	if len(list) == 0 {
		report.Note = "there is nothing to try"
		return report, nil
	}
	if b.Rewrite == nil {
		report.Note = "not tried: the plan was imported, and its tensors cannot be observed again"
		return report, nil
	}
	if err := b.float(ctx); err != nil {
		return nil, err
	}
	b.within = b.trial(0, len(list)+1)
	_, now, err := b.corrected(ctx)
	if err != nil {
		return nil, err
	}
	bar := analysis.Trials(len(list))
	var best *Bench
	least := -1
	var change analysis.Estimate
	for i, s := range list {
		layer := Layer{Node: name(s), Tried: []Step{{By: s.By, Trials: 1}}}
		step := &layer.Tried[0]
		b.within = b.trial(i+1, len(list)+1)
		if b.Work.over() {
			step.Why = "not tried: the budget is spent"
		} else if s.Refines && best == nil {
			step.Why = "not tried: none before it lowers the error"
		} else if e, typical, t, err := b.structure(ctx, s, now); err != nil {
			if ctx.Err() != nil || !declines(err) {
				return nil, err
			}
			step.Why = err.Error()
		} else {
			step.measured(e)
			step.Why = "the error of the outputs does not fall by more than its error bar"
			passes := b.keeps(e, bar) || e.Mean <= 0 && b.keeps(typical, max(bar, typicalBar))
			if passes && (best == nil || e.Mean < change.Mean) {
				best, least, change = t, i, e
			}
		}
		layer.Why, layer.Change, layer.ChangeError = step.Why, step.Change, step.ChangeError
		report.Layers = append(report.Layers, layer)
		b.tell(i+2, len(list)+1, 0)
	}
	if b.within = nil; best == nil {
		return report, nil
	}
	for i := range report.Layers {
		l := &report.Layers[i]
		switch {
		case i == least:
			l.Kept, l.Tried[0].Kept, l.Why, l.Tried[0].Why = true, true, "", ""
		case l.Change < 0:
			l.Why = "another one is better"
			l.Tried[0].Why = l.Why
		}
	}
	b.take(best)
	return report, nil
}

func name(s structural) string {
	switch len(s.Nodes) {
	case 0:
		return s.By
	case 1:
		return s.Nodes[0]
	}
	return fmt.Sprintf("%s and %d more", s.Nodes[0], len(s.Nodes)-1)
}

// declines reports whether an error says that a structure cannot be had, rather than that something is wrong.
func declines(err error) bool {
	var d *declined
	return errors.As(err, &d)
}

// declined is an error of a rewrite that was tried.
type declined struct{ error }

func (d *declined) Unwrap() error { return d.error }

// structure judges one structure against the losses of the bench as it is.
func (b *Bench) structure(ctx context.Context, s structural, now analysis.Losses) (change, typical analysis.Estimate, t *Bench, err error) {
	t, after, err := b.after(ctx, s.Steps)
	if err != nil {
		return change, typical, nil, err
	}
	x, y := now.PerSample(), after.PerSample()
	return analysis.Paired(x, y), analysis.Paired(logs(x), logs(y)), t, nil
}

// after is the bench after more steps, its biases corrected, and its losses.
func (b *Bench) after(ctx context.Context, steps []rewrite.Step) (*Bench, analysis.Losses, error) {
	if err := b.afforded(steps); err != nil {
		return nil, nil, &declined{err}
	}
	next, err := b.rewritten(ctx, append(b.Steps[:len(b.Steps):len(b.Steps)], steps...))
	if err != nil {
		return nil, nil, &declined{err}
	}
	b.forwards(float64(len(b.Fit) + len(b.Held))) // what was observed
	return next.corrected(ctx)
}

// correctedOn is how many samples biases are corrected on where structures are compared, and on how many more each correction is tried: the
// correction of what is kept is made anew with all samples.
const correctedOn = 32

// baseline is a bench with its biases corrected and the losses then. The next change of structure is held against it too where nothing was
// kept in between: nobody changes it.
type baseline struct {
	bench  *Bench
	losses analysis.Losses
}

// corrected is the bench with its biases corrected, and the losses then. b stays as it is.
func (b *Bench) corrected(ctx context.Context) (*Bench, analysis.Losses, error) {
	if b.base != nil {
		return b.base.bench, b.base.losses, nil
	}
	t := *b
	t.Graph, t.Set, t.Frozen = b.Graph.Clone(), b.Set.Clone(), maps.Clone(b.Frozen)
	t.Save, t.Progress, t.point, t.done = nil, b.within, nil, nil // it is not this sweep that is taken up after an interruption
	t.Fit, t.Held = b.Fit[:min(correctedOn, len(b.Fit))], b.Held[:min(correctedOn, len(b.Held))]
	_, err := t.Sweep(ctx, Bias.Proposer)
	if t.Fit, t.Held = b.Fit, b.Held; err != nil {
		return nil, nil, err
	}
	losses, err := t.Losses(ctx)
	if err == nil {
		b.forwards(float64(len(b.Held)))
		b.base = &baseline{&t, losses}
	}
	return &t, losses, err
}

// take makes the bench what another one of the same plan is.
func (b *Bench) take(t *Bench) {
	save, progress, point, done := b.Save, b.Progress, b.point, b.done
	*b = *t
	b.Save, b.Progress, b.point, b.done, b.within = save, progress, point, done, nil
}

// trial tells of the progress of trial i of n of the method under way, which is a sweep.
func (b *Bench) trial(i, n int) func(Progress) {
	if b.Progress == nil {
		return nil
	}
	return func(p Progress) {
		b.tell(i*p.Total+p.Done, n*p.Total, 0)
	}
}
