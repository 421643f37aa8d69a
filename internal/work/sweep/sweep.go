// Package sweep tries combinations of options of a calibration and takes the best.
package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/shard"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/tqc"
)

// Options are the arguments of sweep: what is tried in all combinations. An empty list is the default that it names.
type Options struct {
	Data          open.DataOptions // without paths only the samples that the statistics keep are looked at, and nothing is written
	Platforms     []string         // of the plan that is there; without one all of the catalog
	Observers     []tqc.Observer   // SweepObservers
	Granularities []string         // of weights, GranularityChannel and GranularityTensor: the first
	Dispatchers   []string         // the first of dispatch.Strategies
	// Formats are properties that hold for every operator that can have them, "weights=int4-sym-channel" or several separated by blanks;
	// FormatDefault, which is tried alone unless told otherwise, is the target's own.
	Formats []string
	Peers   bool   // also what other tools choose: observers.Peers
	Device  string // a device file to predict times by; empty: costs are work and bytes
	Beside  bool   // where there is a plan already, write NAME.sweep.plan.json beside it, unless Fresh
	Fresh   bool   // replace a plan that has decisions
	Force   bool   // write a plan that too few samples chose
	Threads int
	Batch   int   // of calibration
	Memory  int64 // for activations and samples
}

// Granularities of weights that sweep tries.
const (
	GranularityChannel = "channel"
	GranularityTensor  = "tensor"
)

// Run tries combinations of options on one half of the samples, judges the plans on the other half, ranks them, and writes the best.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	s, err := sweeping(j, o)
	if err != nil {
		return nil, err
	}
	defer s.Network.Close()
	if err := s.measureOn(ctx); err != nil {
		return nil, err
	}
	if err := s.try(ctx); err != nil {
		return nil, err
	}
	if shard.In(ctx).IsPart() {
		_, err := s.observe(ctx, true)
		return nil, cmp.Or(err, shard.ErrDone)
	}
	r := s.rank()
	if r.Seconds, err = elapsed(), s.write(ctx, r); err == nil {
		r.Seconds = elapsed()
	}
	r.Warnings = append([]tqc.Warning{}, j.Warnings...)
	return r, err
}

// Sweeping is one run of sweep.
type Sweeping struct {
	*open.Job
	Options   Options
	Network   *open.Model
	points    []Point
	Set       *data.Set    // nil: the kept samples judge
	Fit       *calib.Stats // of the samples that scales are fitted on
	evaluator *analysis.Evaluator
	r         *Result
	Config    calib.Config // how the model is observed on data
	labelled  bool
	halves    exec.Halves
	tried     []Point              // those that there are plans of
	answers   []*analysis.Accuracy // of them
	costs     []*analysis.Cost
	device    *analysis.Device
	chosen    *Point
	bench     bench
}

// Calibration are the options of calibrate that are those of the sweep.
func (s *Sweeping) Calibration() calibrate.Options {
	return calibrate.Options{Data: s.Options.Data, Threads: s.Options.Threads, Batch: s.Options.Batch, Memory: s.Options.Memory}
}

// sweeping checks the options and opens the model.
func sweeping(j *open.Job, o Options) (*Sweeping, error) {
	if err := planning.Nameable(j, append([]string{j.Model, o.Data.Preprocess}, o.Data.Paths...)...); err != nil {
		return nil, err
	}
	s := &Sweeping{Job: j, Options: o, r: &Result{Rows: []Row{}, Skipped: []Skipped{}}}
	if err := s.replaceable(); err != nil {
		return nil, err
	}
	if err := s.combine(); err != nil {
		return nil, err
	}
	var err error
	if s.Network, err = j.OpenNormal(j.Model); err != nil {
		return nil, err
	}
	if err := open.Unquantized(s.Network); err != nil {
		s.Network.Close()
		return nil, err
	}
	return s, nil
}

// write writes the plan chosen, calibrated on all samples, unless only kept samples judged it.
func (s *Sweeping) write(ctx context.Context, r *Result) error {
	if s.Set == nil {
		return nil
	}
	confirmed := r.HeldOut >= analysis.MinHeldOut
	if !confirmed && !s.Options.Force {
		return fault.Checkf("sweep: %d held-out samples are too few to choose a plan by: give about %d samples, "+
			"so that at least %d are held out; --force writes the plan all the same", r.HeldOut, 2*analysis.MinHeldOut+8, analysis.MinHeldOut)
	}
	evidence, err := json.Marshal(Evidence{Sweep: len(r.Rows), Samples: r.Samples, HeldOut: r.HeldOut, HeldOutKind: r.HeldOutKind,
		NSR: r.Rows[0].NSR, Answered: r.Rows[0].Answered, Confirmed: confirmed})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	held, err := s.observe(ctx, true)
	if err != nil {
		return err
	}
	all, _, err := calib.Merge(s.Fit, held)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	p, o := s.chosen, s.Calibration()
	o.Fresh = true
	more, err := p.formats()
	if err != nil {
		return err
	}
	o.Platform, o.Observer, o.PerTensor, o.Dispatcher = p.Platform, p.Observer, p.Granularity == GranularityTensor, p.Dispatcher
	if _, _, err := calibrate.With(ctx, s.Job, o, calibrate.Given{Stats: all, Evidence: evidence, More: more}, nil); err != nil {
		return err
	}
	r.Plan = s.Plan
	return nil
}
