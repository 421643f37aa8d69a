package qwb

import (
	"context"
	"errors"
	"fmt"
	"math"

	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/calib"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// badPlan is the warning about a plan whose outputs have a large error, by more than its standard error, measured on whatever; ok is false for a
// plan that has not. The error is an NSR, or with mismatches, where no output is float, the share of elements that differ.
func badPlan(e analysis.Estimate, mismatches bool, on string) (w tqc.Warning, ok bool) {
	if !(e.Mean > advise.Bad) || !math.IsInf(e.Error, 0) && !(e.Mean-e.Error > advise.Bad) {
		return w, false
	}
	spread := &e.Error
	if math.IsInf(e.Error, 0) {
		spread = nil
	}
	text := "this plan is bad: NSR " + WithError(e.Mean, spread) + " of the outputs"
	if mismatches {
		text = "this plan is bad: " + WithError(e.Mean, spread) + " of the elements of the outputs, which are integers, differ from those of float"
	}
	return tqc.Warning{Value: e.Mean, Text: fmt.Sprintf("%s (%s); above %g predictions get worse. qwb analyze says why and what helps", text, on, advise.Bad)}, true
}

// warnBad warns about a plan whose outputs have a large error: on the samples that its statistics keep, or, without those, on the first ones of
// the data. What a command has done is done: an error is no error of the command.
func (j *job) warnBad(ctx context.Context, p *Planned, o DataOptions, threads int) {
	losses, err := j.planLosses(ctx, p, o, threads)
	j.warnBadLosses(p.Reference, losses, err)
}

// warnBadLosses warns of losses of a plan of g.
func (j *job) warnBadLosses(g *graph.Graph, losses analysis.Losses, err error) {
	if err != nil {
		j.detail("the error of the outputs was not measured: %v", err)
		return
	}
	if w, ok := badPlan(losses.Estimate(), analysis.NewJudge(g).Mismatches(), plain.Count(len(losses), "calibration sample")); ok {
		j.warnAbout(w)
	}
}

// planLosses simulates a plan as it is.
func (j *job) planLosses(ctx context.Context, p *Planned, o DataOptions, threads int) (analysis.Losses, error) {
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	d := &derivation{Target: p.Target}
	d.tuned(p.Reference, p.Overlay)
	if d.Stats, err = j.planStats(p); err != nil && p.Plan.Imported == nil {
		return nil, err
	}
	k, err := d.keptRuns(ctx, threads)
	if errors.Is(err, errNoKept) {
		o.Samples = calib.MaxKept
		set, err := j.planData(p, o, calib.MaxKept)
		if err != nil {
			return nil, err
		}
		if k, err = d.runsOf(ctx, set.Iterator(), calib.MaxKept, threads); err != nil {
			return nil, err
		}
		return k.evaluator.Losses(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	return k.evaluator.Losses(ctx, q)
}
