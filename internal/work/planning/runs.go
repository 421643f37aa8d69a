package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/work/open"
	"qwb/internal/work/samples"
	"qwb/quantizer/sim"
)

// ErrNoKept says that there are no samples to measure on where nobody gave data.
var ErrNoKept = errors.New("no sample was kept: a plan that was imported has no statistics, and statistics without samples keep none")

// KeptRuns is what the float graph of a derivation computes on the samples that its statistics keep, computed once.
type KeptRuns struct {
	Evaluator *analysis.Evaluator
	reference *graph.Graph
	Shared    sim.Constants
	Infinite  []string // of the last simulation of them: see sim.Simulator.Infinite
}

// KeptLosses simulates a derived plan on the samples that its statistics keep, at most calib.MaxKept, and returns what analysis.Judge says
// of each, in their order. No data is read. The scales were fitted on these samples too: the losses are a hint and confirm nothing. The
// float graph runs once for all plans of a derivation; d is not to be used by another goroutine meanwhile. Without kept samples the error
// is ErrNoKept.
func KeptLosses(ctx context.Context, j *open.Job, d *Derivation, out *Derived, threads int) (analysis.Losses, error) {
	k, err := d.KeptRuns(ctx, threads)
	if err != nil {
		return nil, err
	}
	q, err := d.Simulator(out, &k.Shared)
	if err != nil {
		return nil, err
	}
	l, err := k.Evaluator.Losses(ctx, q)
	k.Infinite = q.Infinite()
	return l, err
}

// KeptRuns runs the float graph on the kept samples, unless it has.
func (d *Derivation) KeptRuns(ctx context.Context, threads int) (*KeptRuns, error) {
	reference := cmp.Or(d.Reference, d.Graph)
	if d.Kept != nil && d.Kept.reference == reference {
		return d.Kept, nil
	}
	if d.Stats == nil || len(d.Stats.Kept()) == 0 {
		return nil, ErrNoKept
	}
	return d.runsOn(ctx, KeptSamples(d.Stats), threads)
}

// KeptSamples are the samples that statistics keep.
func KeptSamples(stats *calib.Stats) (samples []*exec.Sample) {
	pre, _ := ParsePreprocessKey(stats.Preprocess) // what is no preprocessing names no mask
	for i, k := range stats.Kept() {
		samples = append(samples, &exec.Sample{Name: fmt.Sprintf("kept %d", i+1), Hash: k.Hash, Feeds: k.Feeds, Mask: pre.Mask})
	}
	return samples
}

// runsOn runs the float graph on samples, which count as kept from here on.
func (d *Derivation) runsOn(ctx context.Context, samples []*exec.Sample, threads int) (*KeptRuns, error) {
	k := &KeptRuns{reference: cmp.Or(d.Reference, d.Graph)}
	var err error
	if k.Evaluator, err = analysis.NewEvaluator(ctx, k.reference, func() exec.Iterator { return &exec.InMemory{Samples: samples} }, threads, 0,
		d.Parts...); err != nil {
		return nil, err
	}
	d.Kept = k
	return k, nil
}

// Simulator simulates what was derived, with what was tuned, for an executor that runs the reference. shared may be nil.
func (d *Derivation) Simulator(out *Derived, shared *sim.Constants) (*sim.Simulator, error) {
	reference := cmp.Or(d.Reference, d.Graph)
	g := reference
	if d.Overlay != nil {
		g, _ = d.Overlay.Apply(reference, out.Set)
	}
	return sim.New(g, out.Set, sim.Options{Constants: shared, Runs: reference})
}

// RunsOf is keptRuns on the first samples of a data set.
func (d *Derivation) RunsOf(ctx context.Context, it exec.Iterator, most, threads int) (*KeptRuns, error) {
	taken, err := samples.First(ctx, it, most)
	if err != nil {
		return nil, err
	}
	return d.runsOn(ctx, taken, threads)
}
