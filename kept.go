package qwb

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/sim"
)

// errNoKept says that there are no samples to measure on where nobody gave data.
var errNoKept = errors.New("no sample was kept: a plan that was imported has no statistics, and statistics without samples keep none")

// keptRuns is what the float graph of a derivation computes on the samples that its statistics keep, computed once.
type keptRuns struct {
	evaluator *analysis.Evaluator
	reference *graph.Graph
	shared    sim.Constants
	infinite  bool // of the last simulation of them: see sim.Simulator.Infinite
}

// keptLosses simulates a derived plan on the samples that its statistics keep, at most calib.MaxKept, and returns what analysis.Judge says of
// each, in their order. No data is read. The scales were fitted on these samples too: the losses are a hint and confirm nothing. The float
// graph runs once for all plans of a derivation; d is not to be used by another goroutine meanwhile. Without kept samples the error is
// errNoKept.
func (j *job) keptLosses(ctx context.Context, d *derivation, out *derived, threads int) (analysis.Losses, error) {
	k, err := d.keptRuns(ctx, threads)
	if err != nil {
		return nil, err
	}
	q, err := d.simulator(out, &k.shared)
	if err != nil {
		return nil, err
	}
	l, err := k.evaluator.Losses(ctx, q)
	k.infinite = len(q.Infinite()) > 0
	return l, err
}

// keptRuns runs the float graph on the kept samples, unless it has.
func (d *derivation) keptRuns(ctx context.Context, threads int) (*keptRuns, error) {
	reference := cmp.Or(d.Reference, d.Graph)
	if d.kept != nil && d.kept.reference == reference {
		return d.kept, nil
	}
	if d.Stats == nil || len(d.Stats.Kept()) == 0 {
		return nil, errNoKept
	}
	return d.runsOn(ctx, keptSamples(d.Stats), threads)
}

// keptSamples are the samples that statistics keep.
func keptSamples(stats *calib.Stats) (samples []*exec.Sample) {
	for i, k := range stats.Kept() {
		samples = append(samples, &exec.Sample{Name: fmt.Sprintf("kept %d", i+1), Hash: k.Hash, Feeds: k.Feeds})
	}
	return samples
}

// runsOn runs the float graph on samples, which count as kept from here on.
func (d *derivation) runsOn(ctx context.Context, samples []*exec.Sample, threads int) (*keptRuns, error) {
	k := &keptRuns{reference: cmp.Or(d.Reference, d.Graph)}
	var err error
	if k.evaluator, err = analysis.NewEvaluator(ctx, k.reference, func() exec.Iterator { return &exec.InMemory{Samples: samples} }, threads, 0, d.Parts...); err != nil {
		return nil, err
	}
	d.kept = k
	return k, nil
}

// simulator simulates what was derived, with what was tuned, for an executor that runs the reference. shared may be nil.
func (d *derivation) simulator(out *derived, shared *sim.Constants) (*sim.Simulator, error) {
	reference := cmp.Or(d.Reference, d.Graph)
	g := reference
	if d.Overlay != nil {
		g, _ = d.Overlay.Apply(reference, out.Set)
	}
	return sim.New(g, out.Set, sim.Options{Constants: shared, Runs: reference})
}
