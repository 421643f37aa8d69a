package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/internal/shard"
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
	run := shard.In(ctx)
	if len(s.Options.Data.Paths) == 0 {
		if run != nil {
			return fault.Usagef("sweep in parts needs --data")
		}
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
	if s.Fit, err = s.observe(ctx, false); err != nil {
		return err
	}
	if n := s.Fit.Samples(); n == 0 || n == set.Len() {
		return fault.Checkf("sweep: of %d samples %d are held out to judge on, of which there must be some, but not all: give more samples",
			set.Len(), set.Len()-n)
	}
	s.r.HeldOut = set.Len() - s.Fit.Samples()
	s.r.Calibration = elapsed() * float64(set.Len()) / float64(s.Fit.Samples())
	if !run.IsMerge() {
		parts, err := samples.Slices(s.Job, s.Options.Data.Slices, s.Network.Graph)
		if err != nil {
			return err
		}
		if s.evaluator, err = analysis.NewEvaluator(ctx, s.Network.Graph, func() exec.Iterator { return s.Half(true) }, s.Options.Threads,
			s.Options.Memory, parts...); err != nil {
			return s.Network.Named("sweep", err)
		}
		s.bench = benchOf(s.evaluator)
	}
	bench, err := shard.Unit(run, "bench", run.Mine(0), func() (bench, error) { return s.bench, nil })
	if err == nil && run.IsMerge() {
		s.bench = bench
	}
	return err
}

// bench is what the judge knows before anything is judged.
type bench struct {
	Mismatches bool            // no output is float
	Blocks     analysis.Blocks // of the samples
}

func benchOf(e *analysis.Evaluator) bench { return bench{e.Mismatches(), e.Blocks()} }

// observe is ObserveHalf of a run that may have parts: each of them fits scales on the same statistics, which the first one keeps; the last
// one observes the held-out samples, for the plan that is written.
func (s *Sweeping) observe(ctx context.Context, heldOut bool) (stats *calib.Stats, err error) {
	run, mine := shard.In(ctx), true
	if run.IsPart() {
		if mine = run.Mine(0); heldOut {
			mine = run.Mine(run.Of - 1)
		}
	}
	if !run.IsMerge() && (mine || !heldOut) {
		if stats, err = s.ObserveHalf(ctx, heldOut); err != nil || run == nil {
			return stats, err
		}
	}
	b, err := shard.Unit(run, fmt.Sprintf("statistics, held out: %t", heldOut), mine, func() ([]byte, error) {
		var b bytes.Buffer
		err := stats.Write(&b)
		return b.Bytes(), err
	})
	if err == nil && run.IsMerge() {
		stats, err = calib.Read(bytes.NewReader(b), int64(len(b)))
	}
	return stats, err
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
	s.bench = benchOf(s.evaluator)
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

// outcome is what came of a combination: why there is no plan, or what it answers and costs.
type outcome struct {
	Why    string
	Answer *analysis.Accuracy
	Cost   *analysis.Cost
}

// trial is what combinations of one target share.
type trial struct {
	*Sweeping
	shared  sim.Constants
	d       *planning.Derivation
	refused error // what the format has no form for hangs on the platform
	asked   bool
	judged  []judged // of the target
	first   error    // of the combinations that there is no plan of
}

// judged is a plan and what it answers.
type judged struct {
	set    *tqc.Set
	answer *analysis.Accuracy
}

// try derives and simulates all combinations, or those of a part of the run.
func (s *Sweeping) try(ctx context.Context) error {
	tick, finish := s.Progress("sweep: plans", len(s.points))
	defer finish()
	t := &trial{Sweeping: s}
	run := shard.In(ctx)
	for i, p := range s.points {
		name := fmt.Sprintf("combination %d: %s, %s, %s, %s, %s", i, p.Platform, p.Observer, p.Granularity, p.Dispatcher, p.Format)
		o, err := shard.Unit(run, name, run.Mine(i), func() (outcome, error) {
			a, cost, err := t.one(ctx, &p)
			if err == nil {
				return outcome{Answer: a, Cost: cost}, nil
			}
			if none := (*noPlan)(nil); !errors.As(err, &none) {
				return outcome{}, err
			}
			t.first = cmp.Or(t.first, errors.Unwrap(err))
			return outcome{Why: err.Error()}, nil
		})
		switch {
		case err != nil:
			return err
		case o.Answer != nil:
			s.tried, s.answers, s.costs = append(s.tried, p), append(s.answers, o.Answer), append(s.costs, o.Cost)
		case o.Why != "":
			t.first = cmp.Or(t.first, errors.New(o.Why))
			s.r.Skipped = append(s.r.Skipped, Skipped{p.Target.Name, p.Observer, p.Granularity, p.Dispatcher, p.Format, o.Why})
		}
		tick(i + 1)
	}
	if len(s.tried) == 0 && !run.IsPart() {
		return fmt.Errorf("sweep: none of %d combinations gives a plan; the first: %w", len(s.points), t.first)
	}
	return nil
}

// noPlan says why a combination gives no plan.
type noPlan struct{ error }

func (e *noPlan) Unwrap() error { return e.error }

// one derives and simulates a combination.
func (t *trial) one(ctx context.Context, p *Point) (*analysis.Accuracy, *analysis.Cost, error) {
	if t.d == nil || t.d.Target != p.Target {
		t.refused, t.asked, t.judged = nil, false, nil
		t.d = &planning.Derivation{Graph: t.Network.Graph, Target: p.Target, Stats: t.Fit, Own: t.Catalog.Observers, Threads: t.Options.Threads}
	}
	none := func(err error) (*analysis.Accuracy, *analysis.Cost, error) {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, &noPlan{err}
	}
	list, err := p.Decisions()
	if err != nil {
		return nil, nil, err
	}
	out, err := t.d.Derive(ctx, list)
	if err != nil {
		return none(err)
	}
	if !t.asked {
		t.refused, t.asked = calibrate.Refusal(ctx, t.Job, t.Network, out, p.Target, t.Sweeping.first(), t.Options.Threads), true
	}
	if t.refused != nil {
		return none(t.refused)
	}
	cost, err := analysis.CostOf(out.Graph, out.Set, p.Target, t.device)
	if err != nil {
		return nil, nil, err
	}
	// Observers often agree on all scales: mse and robust do where nothing lies far out.
	if i := slices.IndexFunc(t.judged, func(j judged) bool { return j.set.Alike(out.Set) }); i >= 0 {
		return t.judged[i].answer, &cost, nil
	}
	q, err := t.d.Simulator(out, &t.shared)
	if err != nil {
		return nil, nil, err
	}
	var a *analysis.Accuracy
	if t.labelled {
		a, err = t.evaluator.Accuracy(ctx, q)
	} else {
		a, err = t.evaluator.Judged(ctx, q)
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if names := q.Infinite(); err != nil && planning.NotFinite(err) || err == nil && len(names) > 0 && !planning.Infinite(t.Fit, names) {
		err = t.notFinite(ctx, t.d, p, list, out, q, err)
	}
	if err != nil {
		return none(err)
	}
	t.judged = append(t.judged, judged{out.Set, a})
	return a, &cost, nil
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
	f, selector, failed := d.Search(ctx, out, list, taken).Find(ctx, out.Set, q)
	if failed != nil || f == nil {
		return err
	}
	if selector != "" {
		f.Cure = p.command(s.Model, s.Plan, s.flags()) + " && qwb set " + plain.Shell(s.Plan, selector, "domain=fp32")
	}
	return fault.CheckError{Err: &fault.NotFiniteError{Found: f, Err: err}}
}
