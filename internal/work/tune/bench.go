package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	"qwb/kernels/qmath"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// tuning is one run of tune.
type tuning struct {
	*planning.Change
	o        Options
	Bench    *tune.Bench
	added    map[string]bool           // nodes that were given a bias
	kind     string                    // of the held-out samples
	grams    *calib.GramFile           // to fit on; nil: data
	observed map[string]*observedSteps // by the hash of the steps
	recent   []string                  // keys of observed, in the order in which they came
	rounding qmath.Rounding            // of activations, by what judges
	warned   bool                      // that the plan's data cannot be read
	turn     []*exec.Sample            // what is observed, of a turn; nil: the plan's data
}

// Tuning makes everything ready: the samples, and a reference with a bias at every operator that could have one.
func Tuning(ctx context.Context, c *planning.Change, o Options) (*tuning, error) {
	p := c.Planned
	t := &tuning{Change: c, o: o, added: map[string]bool{}}
	fits := p.Fitting()
	if fits == nil {
		fits = &overlay.Overlay{}
	}
	if p.Overlay != nil { // stale ones too: the reference has their biases
		for _, e := range p.Overlay.Entries {
			if e.Added {
				t.added[e.Node] = true
			}
		}
	}
	var err error
	if t.Bench, err = t.newBench(ctx, p.Reference.Clone(), c.Derivation.Stats, p.Set, fits); err != nil {
		return nil, err
	}
	model := p.Reference
	if len(fits.Steps) > 0 {
		if model, err = planning.NormalAgain(t.Job, p); err != nil {
			return nil, err
		}
	}
	t.Bench.Room = &tune.Room{Model: tune.SizeOf(model), Work: room(o.MaxWork), Bytes: room(o.MaxBytes)}
	return t, t.read(ctx, o)
}

// newBench makes a bench on a reference that is prepared for tuned values; set is its configuration without them.
func (t *tuning) newBench(ctx context.Context, reference *graph.Graph, stats *calib.Stats, set *tqc.Set,
	fits *overlay.Overlay) (*tune.Bench, error) {
	if t.Planned.Plan.Imported == nil { // its scales are the file's own, which has none for more biases
		maps.Copy(t.added, tune.Prepare(reference, set))
	}
	b := &tune.Bench{Reference: reference, Steps: fits.Steps, Threads: t.o.Threads, Memory: exec.MemoryFor(ctx, 0), Force: t.o.Force,
		BlockSteps: t.o.Steps, Blocks: t.o.Blocks, Loss: t.o.Loss, Optimizer: t.o.Optimizer,
		StepMemory: exec.MemoryOf(ctx) / 8, Say: func(text string) { t.Note("%s", text) }}
	var err error
	if b.Parts, err = samples.Slices(t.Job, t.o.Data.Slices, reference); err != nil {
		return nil, err
	}
	if stats != nil && stats.HasSums() {
		b.Sums = stats.Sums
	}
	b.Graph, _ = fits.Apply(reference, nil)
	b.Frozen = planning.FrozenNodes(reference, fits)
	out, err := t.configure(ctx, stats, reference, b.Graph, fits)
	if err != nil {
		return nil, err
	}
	b.Set, b.Ranges = out.Set, t.ranges(stats, out.Table)
	b.Simulate = func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
		if t.rounding != qmath.HalfEven {
			set = set.Rounded(t.rounding)
		}
		return sim.New(g, set, sim.Options{Constants: shared, Runs: reference})
	}
	if t.Planned.Plan.Imported == nil {
		b.Rewrite = t.rewrite
	}
	return b, nil
}

// configure derives the plan's decisions, and more, for a graph with the same nodes, which is a reference with tuned values.
func (t *tuning) configure(ctx context.Context, stats *calib.Stats, reference, g *graph.Graph, o *overlay.Overlay,
	more ...decision.Decision) (*planning.Derived, error) {
	d := &planning.Derivation{Reference: reference, Graph: g, Overlay: o, Target: t.Derivation.Target, Stats: stats,
		Imported: t.Derivation.Imported, Own: t.Derivation.Own, Threads: t.Derivation.Threads}
	return d.Derive(ctx, append(slices.Clip(t.Planned.Plan.Decisions), more...))
}

// read reads all samples and splits them.
func (t *tuning) read(ctx context.Context, o Options) error {
	set, err := planning.PlanData(t.Job, t.Planned, o.Data, TuneSamples)
	if err != nil {
		return err
	}
	all, err := samples.First(ctx, set.Iterator(), set.Len())
	if err != nil {
		return err
	}
	b := t.Bench
	b.Fit, b.Held = samples.Halved(all)
	if o.Gram != "" { // the sums were made sample by sample
		b.Fit, b.Held = nil, slices.DeleteFunc(slices.Clone(all), func(s *exec.Sample) bool { return !exec.HeldOut(s.Hash) })
	}
	seen := planning.SeenBy(t.Derivation.Stats)
	crossed := o.Gram == "" && len(b.Fit) > 0 && len(all) < analysis.CrossedBelow && len(all) >= analysis.MinHeldOut
	if !o.Force && !crossed && len(b.Held) < analysis.MinHeldOut {
		return t.tooFew(len(all), o)
	}
	if crossed {
		b.Halves = &[2][]*exec.Sample{b.Fit, b.Held}
		b.Fit, b.Held = all, all
		if was := t.Derivation.Base; was != nil && was.Samples() < 2*len(all) { // else few ranges are those of the samples that judge
			b.Apart = t.apart
		}
		t.Note("%s are few: the halves take turns in fitting and judging, and what helps is fitted on all of them",
			plain.Count(len(all), "sample"))
	}
	var held [][32]byte
	for _, s := range b.Held {
		held = append(held, s.Hash)
		b.Resum = b.Resum || seen[s.Hash] && !exec.HeldOut(s.Hash)
	}
	t.kind = analysis.HeldOutKind(held, func(h [32]byte) bool { return seen[h] && b.Apart == nil })
	return nil
}

// tooFew says, before any work, that so many samples can confirm nothing, and how many could.
func (t *tuning) tooFew(n int, o Options) error {
	if o.Gram != "" {
		return fault.Checkf("tune: %d of %d samples are held out, which confirm nothing: give about %d samples, "+
			"so that at least %d are held out (--force keeps what is not confirmed)",
			len(t.Bench.Held), n, 3*analysis.MinHeldOut, analysis.MinHeldOut)
	}
	return fault.Checkf("tune: %s can confirm nothing: give at least %d that differ (--force keeps what is not confirmed)",
		plain.Count(n, "sample"), analysis.MinHeldOut)
}

// progress tells how many percent of the whole are done, each method having as many parts as it sweeps over the operators, and of each
// method the error so far.
func (t *tuning) progress(methods []*tune.Method) (finish func()) {
	before := make([]int, 1, len(methods)+1) // sweeps, before each stage
	for _, m := range methods {
		before = append(before, before[len(before)-1]+m.Sweeps())
	}
	last, n := 0, len(methods)
	tick, end := t.Change.Progress(fmt.Sprintf("tune (%s, in percent)", plain.Count(n, "stage")), 100)
	t.Bench.Progress = func(p tune.Progress) {
		if p.Stage != last {
			if last == 0 && t.Bench.Work.Time > 0 {
				t.Note("a budget of %s is %.0f forward passes", t.Bench.Work.Time, t.Bench.Work.Limit)
			}
			last = p.Stage
			t.Detail("tune: stage %d of %d: %s, NSR of the outputs %.3g so far", min(p.Stage, n), n, p.Method, p.Error.NSR)
		}
		if p.Stage > n { // one of those that are tried where a stage was taken back
			return
		}
		from, to := 100*before[p.Stage-1], 100*before[p.Stage]
		tick((from + (to-from)*p.Done/max(p.Total, 1)) / before[n])
	}
	return end
}

// tuned is the outcome of a tuning as the plan will have it.
type tuned struct {
	overlay   *overlay.Overlay
	reference *graph.Graph
	graph     *graph.Graph
	set       *tqc.Set
	Steps     *observedSteps
	warnings  []tqc.Warning       // of the plan
	chosen    []decision.Decision // scales of activations
}

// Settle puts together what was kept: a reference with no more biases than are needed, and the scales of the tuned graph.
func (t *tuning) Settle(ctx context.Context, threads int) (*tuned, error) {
	f := &tuned{overlay: t.Bench.Overlay(t.Bench.Set, t.added)}
	var err error
	if f.Steps, err = t.observe(ctx, f.overlay.Steps); err != nil {
		return nil, err
	}
	f.reference = f.Steps.reference.Clone()
	f.overlay.Prepare(f.reference)
	g, _ := f.overlay.Apply(f.reference, nil)
	f.chosen = chosenRanges(t.Bench)
	out, err := t.configure(ctx, f.Steps.stats, f.reference, g, f.overlay, f.chosen...)
	if err != nil {
		return nil, err
	}
	f.set = out.Set
	if f.warnings = t.Planned.Plan.Warnings; f.Steps.stats != nil {
		f.warnings = planning.PlanWarnings(out.Warnings, f.Steps.stats, t.Planned.Plan.Data.Synthetic)
	}
	for i := range f.overlay.Entries {
		e := &f.overlay.Entries[i]
		if id, ok := f.reference.LookupNode(e.Node); ok {
			e.For = overlay.Fingerprint(f.set, id)
		}
	}
	var stale []overlay.Stale
	if f.graph, stale = f.overlay.Apply(f.reference, f.set); len(stale) > 0 {
		return nil, errors.New("tune: the tuned values do not fit the plan they were made for: " + stale[0].String())
	}
	return f, nil
}

// losses judges the plan as it was and as it will be on the held-out samples.
func (t *tuning) losses(ctx context.Context, f *tuned, o Options) (before, after analysis.Losses, err error) {
	again := func() exec.Iterator { return &exec.InMemory{Samples: t.Bench.Held} }
	for _, side := range []struct {
		reference, graph *graph.Graph
		set              *tqc.Set
		losses           *analysis.Losses
	}{{t.Planned.Reference, t.Planned.Graph, t.Planned.Set, &before}, {f.reference, f.graph, f.set, &after}} {
		ev, err := analysis.NewEvaluator(ctx, side.reference, again, o.Threads, 0, t.Bench.Parts...)
		if err != nil {
			return nil, nil, err
		}
		if t.Bench.Integers != nil {
			*side.losses, err = ev.LossesOf(ctx, side.graph, func(g *graph.Graph) (analysis.Forward, error) { return t.Bench.Integers(g, side.set) })
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		q, err := sim.New(side.graph, side.set, sim.Options{Runs: side.reference})
		if err != nil {
			return nil, nil, err
		}
		*side.losses, err = ev.Losses(ctx, q)
		planning.Met(t.Job, t.Planned, q.Infinite())
		if err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}

// Write writes the tuned values and the plan with the decision that names them, and returns the name of their file.
func (t *tuning) Write(f *tuned, r *Result, o Options) (string, error) {
	file, tuned, err := planning.StageOverlay(t.Job, t.Planned.File, f.overlay)
	if err != nil {
		return "", err
	}
	statistics, observed, err := planning.StageStats(t.Job, t.Planned.File, f.Steps.changed)
	if err != nil {
		return "", err
	}
	stage := func(s store.Stage) error {
		for _, add := range []func(store.Stage) error{tuned, observed} {
			if add != nil {
				if err := add(s); err != nil {
					return err
				}
			}
		}
		return nil
	}
	d, err := t.decision(r, o)
	if err != nil {
		return "", err
	}
	d.Overlay, d.Statistics = "sha256:"+file.SHA256, statistics
	next := *t.Planned.Plan
	next.Decide(append([]decision.Decision{d}, f.chosen...)...)
	meta := next.Meta
	meta.Warnings = f.warnings
	np, err := plan.FromSet(f.graph, f.set, meta)
	if err != nil {
		return "", err
	}
	np.Decisions, np.Steps, np.Redo = next.Decisions, next.Steps, next.Redo
	_, err = planning.WritePlan(t.Job, t.Planned.File, np, t.Planned.Sum, stage)
	return plan.Resolve(t.Planned.File, file.Path), err
}

// decision is what a tuning is remembered by, without what it kept.
func (t *tuning) decision(r *Result, o Options) (d decision.Decision, err error) {
	d = decision.Decision{By: decision.ByTune, Method: strings.Join(o.Methods, ",")}
	if d.Params, err = o.Params(r); err != nil {
		return d, err
	}
	if d.Evidence, err = json.Marshal(tuneEvidence(r)); err != nil {
		return d, fmt.Errorf("tune: %w", err)
	}
	list := t.Planned.Plan.Decisions
	inputs, err := t.Planned.Plan.Inputs()
	if err != nil {
		return d, err
	}
	d.After, err = decision.After(append(list[:len(list):len(list)], d), len(list), inputs)
	return d, err
}

// decline writes that a tuning kept nothing.
func (t *tuning) decline(ctx context.Context, r *Result, o Options) error {
	d, err := t.decision(r, o)
	if err != nil {
		return err
	}
	_, err = t.Change.Decide(ctx, d)
	return err
}
