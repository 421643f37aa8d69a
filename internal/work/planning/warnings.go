package planning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/calib"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// BadPlan is the warning about a plan whose outputs have a large error, by more than its standard error, measured on whatever; ok is false
// for a plan that has not. The error is an NSR, or with mismatches, where no output is float, the share of elements that differ. part is
// the part of an output that it is of, empty for a whole one. then says what to do.
func BadPlan(e analysis.Estimate, part string, mismatches bool, on, then string) (w tqc.Warning, ok bool) {
	if !(e.Mean > advise.Bad) || !math.IsInf(e.Error, 0) && !(e.Mean-e.Error > advise.Bad) {
		return w, false
	}
	spread := &e.Error
	if math.IsInf(e.Error, 0) {
		spread = nil
	}
	text := "this plan is bad: NSR " + reports.WithError(e.Mean, spread) + " of "
	switch {
	case mismatches:
		text = "this plan is bad: " + reports.WithError(e.Mean, spread) + " of the elements of the outputs, which are integers, " +
			"differ from those of float"
	case part != "":
		text += "part " + part + " of the outputs"
	default:
		text += "the outputs"
	}
	return tqc.Warning{Value: e.Mean, Text: fmt.Sprintf("%s (%s); above %g predictions get worse. %s", text, on, advise.Bad, then)}, true
}

// searched is the NSR of the outputs that a search is asked for: half of what is bad.
const searched = advise.Bad / 2

// WhatHelps says where a bad plan's cure stands, report being what an analysis says of it: where says of advice where it is found. Without
// a report, or one of operators, nobody knows yet whether there is any.
func WhatHelps(j *open.Job, r *analysis.Report, where string, o open.DataOptions) string {
	words := []string{j.Plan, "--auto", "--max-nsr", fmt.Sprint(searched)}
	for _, path := range o.Paths {
		words = append(words, "--data", path)
	}
	search := "finds which operators to keep in float: qwb dispatch " + plain.Shell(words...)
	switch {
	case r == nil:
		return "qwb analyze looks for the cause and for a cure; if it finds none, a search over all operators " + search
	case r.Layerwise == nil:
		return "qwb analyze --layerwise looks for the cause and for a cure; if it finds none, a search over all operators " + search
	case slices.ContainsFunc(r.Advice, func(a analysis.Advice) bool { return a.Predicted != nil }):
		return where + " says why and what helps"
	}
	return "Nothing that was tried by itself helps; a search over all operators " + search
}

// Analysed is the last analysis of the operators of a plan, nil where there is none of it as it is.
func Analysed(j *open.Job, p *plan.Plan) *analysis.Report {
	if r := LastAnalysis(j, p); r != nil && r.Layerwise != nil {
		return r
	}
	return nil
}

// LastAnalysis is the last analysis of a plan, of whatever parts; nil where there is none of it as it is.
func LastAnalysis(j *open.Job, p *plan.Plan) *analysis.Report {
	of, r, err := journal.KeptAnalysis(j.Project)
	if err != nil {
		return nil
	}
	if now, err := p.Hash(); err != nil || now != of {
		return nil
	}
	return r
}

// WarnBad warns about a plan whose outputs have a large error: on the samples that its statistics keep, or, without those, on the first
// ones of the data. What a command has done is done: an error is no error of the command. A number that is none is returned: whether it is
// a warning is the command's to say.
func WarnBad(ctx context.Context, j *open.Job, p *Planned, o open.DataOptions, threads int) *analysis.NotFinite {
	warn, stop := WarnBadLater(ctx, j, p, o, threads)
	defer stop()
	return warn()
}

// WarnBadLater is WarnBad in two: with several threads, and weights that fit into memory, the plan is simulated while the command goes on,
// which must not change it; warn waits for that, stop ends it.
func WarnBadLater(ctx context.Context, j *open.Job, p *Planned, o open.DataOptions,
	threads int) (warn func() *analysis.NotFinite, stop func()) {
	var losses analysis.Losses
	var infinite bool
	var err error
	simulating, cancel := context.WithCancel(ctx)
	simulate := sync.OnceFunc(func() {
		err = graph.Try(func() (err error) {
			losses, infinite, err = planLosses(simulating, j, p, o, threads)
			return err
		})
	})
	beside := threads != 1 && p.Graph.Store == nil
	if beside {
		go simulate()
	}
	warn = func() *analysis.NotFinite {
		simulate()
		f := met(ctx, j, infinite, err, o, threads)
		WarnBadLosses(j, p.Reference, p.Plan, losses, err, o)
		return f
	}
	return warn, func() {
		if cancel(); beside {
			simulate()
		}
	}
}

// WarnBadLosses warns of losses of a plan of g.
func WarnBadLosses(j *open.Job, g *graph.Graph, p *plan.Plan, losses analysis.Losses, err error, o open.DataOptions) {
	if err != nil {
		j.Detail("the error of the outputs was not measured: %v", err)
		return
	}
	judge := analysis.NewJudge(g)
	on := plain.Count(len(losses), "calibration sample")
	if w, ok := BadPlan(losses.Estimate(), judge.WorstPart(losses), judge.Mismatches(), on,
		WhatHelps(j, Analysed(j, p), "qwb analyze", o)); ok {
		j.WarnAbout(w)
	}
}

// planLosses simulates a plan as it is. infinite: see WarnNotFinite.
func planLosses(ctx context.Context, j *open.Job, p *Planned, o open.DataOptions,
	threads int) (l analysis.Losses, infinite bool, err error) {
	q, err := p.Simulator()
	if err != nil {
		return nil, false, err
	}
	d := &Derivation{Target: p.Target}
	d.tuned(p.Reference, p.Overlay)
	if d.Stats, err = PlanStats(j, p); err != nil && p.Plan.Imported == nil {
		return nil, false, err
	}
	k, err := d.KeptRuns(ctx, threads)
	if errors.Is(err, ErrNoKept) {
		o.Samples = calib.MaxKept
		set, err := PlanData(j, p, o, calib.MaxKept)
		if err != nil {
			return nil, false, err
		}
		if k, err = d.RunsOf(ctx, set.Iterator(), calib.MaxKept, threads); err != nil {
			return nil, false, err
		}
		l, err = k.Evaluator.Losses(ctx, q)
		return l, len(q.Infinite()) > 0, err
	}
	if err != nil {
		return nil, false, err
	}
	l, err = k.Evaluator.Losses(ctx, q)
	return l, len(q.Infinite()) > 0, err
}

// PlanWarnings are what a plan says about its own scales.
func PlanWarnings(derived []tqc.Warning, stats *calib.Stats, synthetic bool) []tqc.Warning {
	list := slices.Concat(derived, stats.Settled(0))
	if synthetic {
		list = append(list, tqc.Warning{Text: "calibrated on synthetic data: the ranges say nothing about real inputs"})
	}
	return list
}
