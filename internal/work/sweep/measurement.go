package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// measureOn makes the statistics that scales come from, and runs the float graph on the samples that judge.
func (s *Sweeping) measureOn(ctx context.Context) error {
	if len(s.Options.Data.Paths) == 0 {
		return s.measureOnKept(ctx)
	}
	set, pre, err := s.OpenData(s.Network.Graph, s.Options.Data.Of(s.Network))
	if err != nil {
		return err
	}
	if s.labelled = s.Options.Data.Labels != "" || set.RequireLabels() == nil; s.labelled {
		if err := set.RequireLabels(); err != nil {
			return err
		}
	}
	if s.Config, err = calibrate.Config(s.Job, s.Network, &pre, s.Calibration()); err != nil {
		return err
	}
	s.Set, s.r.HeldOutKind, s.r.Samples = set, analysis.HeldOutUnseen, set.Len()
	if err := s.fits(ctx, set); err != nil {
		return err
	}
	elapsed := s.Stopwatch()
	if s.Fit, err = s.ObserveHalf(ctx, false); err != nil {
		return err
	}
	if n := s.Fit.Samples(); n == 0 || n == set.Len() {
		return fault.Checkf("sweep: of %d samples %d are held out to judge on, of which there must be some, but not all: give more samples",
			set.Len(), set.Len()-n)
	}
	s.r.HeldOut = set.Len() - s.Fit.Samples()
	s.r.Calibration = elapsed() * float64(set.Len()) / float64(s.Fit.Samples())
	parts, err := samples.Slices(s.Job, s.Options.Data.Slices, s.Network.Graph)
	if err != nil {
		return err
	}
	s.evaluator, err = analysis.NewEvaluator(ctx, s.Network.Graph, func() exec.Iterator { return s.Half(true) }, s.Options.Threads,
		s.Options.Memory, parts...)
	return s.Network.Named("sweep", err)
}

// fits refuses, before anything runs, to keep outputs of half of the samples that do not fit into memory.
func (s *Sweeping) fits(ctx context.Context, set *data.Set) error {
	if set.Len() == 0 || exec.MemoryOf(ctx) == 0 {
		return nil
	}
	first, err := set.Sample(0)
	if err != nil {
		return err
	}
	if _, _, err = exec.Fit(ctx, s.Network.Graph, first.Feeds, exec.Work{Outputs: (set.Len() + 1) / 2}, 0); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// measureOnKept takes the statistics that are there.
func (s *Sweeping) measureOnKept(ctx context.Context) error {
	var err error
	if s.Fit, err = planning.LoadStats(s.Job, s.StatsFile(), s.Network); store.Missing(err) {
		return fault.Usagef("sweep needs --data: there are no statistics of an earlier run either (%s)", s.StatsFile())
	} else if err != nil {
		return err
	}
	kept, err := (&planning.Derivation{Graph: s.Network.Graph, Stats: s.Fit}).KeptRuns(ctx, s.Options.Threads)
	if err != nil {
		return s.Network.Named("sweep", err)
	}
	s.evaluator, s.r.HeldOutKind, s.r.Samples, s.r.HeldOut = kept.Evaluator, HeldOutKept, s.Fit.Samples(), len(s.Fit.Kept())
	return nil
}

// ObserveHalf observes the model on the samples that are held out, or on the others.
func (s *Sweeping) ObserveHalf(ctx context.Context, heldOut bool) (*calib.Stats, error) {
	if err := s.halve(ctx); err != nil {
		return nil, s.Network.Named("sweep", err)
	}
	what := "sweep: calibrate on the samples to fit on"
	if heldOut {
		what = "sweep: calibrate on the held-out samples"
	}
	tick, finish := s.Progress(what, 0)
	defer finish()
	cfg := s.Config
	cfg.Progress = func(done, _ int) { tick(done) }
	stats, err := calib.Run(ctx, s.Network.Graph, s.Half(heldOut), cfg)
	return stats, s.Network.Named("sweep", err)
}

// halve reads all samples once, to rank them.
func (s *Sweeping) halve(ctx context.Context) error {
	if s.halves != nil {
		return nil
	}
	hashes, err := samples.ReadHashes(ctx, s.Set.Iterator(), nil)
	if err != nil {
		return err
	}
	s.halves = exec.NewHalves(hashes)
	return nil
}

// Half is the samples that are held out, or the others, once ObserveHalf has ranked them.
func (s *Sweeping) Half(heldOut bool) exec.Iterator {
	return &samples.Part{Iterator: s.Set.Iterator(), N: s.Set.Len(), Ours: func(x *exec.Sample) bool { return s.halves[x.Hash] == heldOut }}
}

// first is a sample that statistics keep, nil where there is none.
func (s *Sweeping) first() map[string]*tensor.Tensor {
	if kept := s.Fit.Kept(); len(kept) > 0 {
		return kept[0].Feeds
	}
	return nil
}

// try derives and simulates all combinations.
func (s *Sweeping) try(ctx context.Context) error {
	tick, finish := s.Progress("sweep: plans", len(s.points))
	defer finish()
	var shared sim.Constants
	var d *planning.Derivation
	var first, refused error
	asked := false
	skip := func(p *Point, err error) {
		first = cmp.Or(first, err)
		s.r.Skipped = append(s.r.Skipped, Skipped{p.Target.Name, p.Observer, p.Granularity, p.Dispatcher, p.Format, err.Error()})
	}
	for i, p := range s.points {
		if d == nil || d.Target != p.Target {
			refused, asked = nil, false
			d = &planning.Derivation{Graph: s.Network.Graph, Target: p.Target, Stats: s.Fit, Own: s.Catalog.Observers, Threads: s.Options.Threads}
		}
		list, err := p.Decisions()
		if err != nil {
			return err
		}
		out, err := d.Derive(ctx, list)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			skip(&p, err)
			continue
		}
		if !asked { // what the format has no form for hangs on the platform
			refused, asked = calibrate.Refusal(ctx, s.Job, s.Network, out, p.Target, s.first(), s.Options.Threads), true
		}
		if refused != nil {
			if ctx.Err() != nil {
				return refused
			}
			skip(&p, refused)
			continue
		}
		cost, err := analysis.CostOf(out.Graph, out.Set, s.device)
		if err != nil {
			return err
		}
		q, err := d.Simulator(out, &shared)
		if err != nil {
			return err
		}
		var a *analysis.Accuracy
		if s.labelled {
			a, err = s.evaluator.Accuracy(ctx, q)
		} else {
			a, err = s.evaluator.Judged(ctx, q)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if names := q.Infinite(); err != nil && planning.NotFinite(err) || err == nil && len(names) > 0 && !planning.Infinite(s.Fit, names) {
			err = s.notFinite(ctx, d, &p, list, out, q, err)
		}
		if err != nil {
			skip(&p, err)
			tick(i + 1)
			continue
		}
		s.tried, s.answers, s.costs = append(s.tried, p), append(s.answers, a), append(s.costs, &cost)
		tick(i + 1)
	}
	if len(s.tried) == 0 {
		return fmt.Errorf("sweep: none of %d combinations gives a plan; the first: %w", len(s.points), first)
	}
	return nil
}

// notFinite says of a combination that met numbers which are none, and failed with err or went on, what makes them, and how its plan is
// mended. It returns err where nothing is found.
func (s *Sweeping) notFinite(ctx context.Context, d *planning.Derivation, p *Point, list []decision.Decision, out *planning.Derived,
	q *sim.Simulator, err error) error {
	it := exec.Iterator(&exec.InMemory{Samples: planning.KeptSamples(s.Fit)})
	if s.Set != nil {
		it = s.Half(true)
	}
	taken, failed := samples.First(ctx, it, planning.LookAt)
	if failed != nil {
		return err
	}
	x := &planning.Search{Graph: out.Graph, Target: p.Target, Reference: cmp.Or(d.Reference, d.Graph), Samples: taken}
	x.With = func(selector string) (*tqc.Set, *sim.Simulator, error) {
		more := decision.Decision{By: decision.ByUser, Select: decision.Select{selector}, Properties: decision.Properties{Domain: decision.FP32}}
		out, err := d.Derive(ctx, append(slices.Clip(list), more))
		if err != nil {
			return nil, nil, err
		}
		q, err := d.Simulator(out, nil)
		return out.Set, q, err
	}
	f, selector, failed := x.Find(ctx, out.Set, q)
	if failed != nil || f == nil {
		return err
	}
	if selector != "" {
		f.Cure = p.command(s.Model, s.Plan, s.flags()) + " && qwb set " + plain.Shell(s.Plan, selector, "domain=fp32")
	}
	return fault.CheckError{Err: &fault.NotFiniteError{Found: f, Err: err}}
}
