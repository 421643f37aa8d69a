package qwb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// TuneSamples is how many samples of the plan's own data tuning reads unless told otherwise.
const TuneSamples = 64

// TuneOptions are the arguments of tune.
type TuneOptions struct {
	Methods []string // names of tune.Methods; "auto" is all of them
	Data    DataOptions
	Threads int
	Memory  int64  // for activations to restart from
	Force   bool   // keep what cannot be confirmed
	Budget  string // of work, see ParseBudget; empty: no end
	// Profile is the arithmetic of the integers that are to get better. Empty: the simulation is, unless the integers of the platform's
	// profile do otherwise.
	Profile string
	// Gram is a file of Gram statistics to fit on instead of data; held-out samples still come from data.
	Gram string
	// Shard, if not zero, is the part of the data of which Gram statistics are written to Out; see Grams.
	Shard Shard
	Out   string
}

// ParseBudget reads how much tuning may do: a time, "10m", or work, "5000 forwards" (the blank may be missing). A forward is one sample
// through the whole graph; a time is turned into forwards once, by what the first ones take. Empty is no end.
func ParseBudget(text string) (*tune.Work, error) {
	if text == "" {
		return &tune.Work{}, nil
	}
	if count, ok := strings.CutSuffix(text, "forwards"); ok {
		n, err := strconv.ParseUint(strings.TrimSpace(count), 10, 53)
		if err != nil || n == 0 {
			return nil, Usagef("--budget %s: %q is no positive number of forwards", text, strings.TrimSpace(count))
		}
		return &tune.Work{Limit: float64(n)}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, Usagef("--budget %s: a time as 10m, or work as 5000forwards", text)
	}
	return &tune.Work{Time: d}, nil
}

// TuneResult is what tune --json prints. Before and After are the error of the outputs on the held-out samples, see analysis.Judge.
type TuneResult struct {
	Plan        string       `json:"plan"`
	Overlay     string       `json:"overlay"` // the file of tuned values; empty where nothing was kept
	Samples     int          `json:"samples"`
	HeldOut     int          `json:"held_out"`
	HeldOutKind string       `json:"held_out_kind"`
	Before      analysis.NSR `json:"before"`
	After       analysis.NSR `json:"after"`
	Change      float64      `json:"change"` // mean of after - before over the held-out samples, paired
	ChangeError *float64     `json:"change_error"`
	Confirmed   bool         `json:"confirmed"`
	// Steps is how many steps keep the float function in front of all else, and FloatNSR what they leave of it: the largest error of an
	// output of the reference against the model, relative to its power, on the samples that the statistics keep.
	Steps    int            `json:"steps,omitempty"`
	FloatNSR *float64       `json:"float_nsr,omitempty"`
	Judged   string         `json:"judged"` // what the errors are of: "simulation", or the profile whose integers were run
	Methods  []*tune.Report `json:"methods"`
	Budget   float64        `json:"budget,omitempty"` // how many forwards might be spent; absent: no end
	Work     float64        `json:"work"`             // how many were
	Seconds  float64        `json:"seconds"`
}

// methodsNamed finds methods by their names.
func methodsNamed(names []string) ([]*tune.Method, error) {
	var list []*tune.Method
	for _, name := range names {
		if name == "auto" {
			list = append(list, tune.Methods...)
			continue
		}
		m := tune.Find(name)
		if m == nil {
			var known []string
			for _, m := range tune.Methods {
				known = append(known, m.Name)
			}
			return nil, Usagef("unknown method %q: auto or %s", name, strings.Join(known, ", "))
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, Usagef("tune needs a method")
	}
	return list, nil
}

// tune runs methods on a plan and writes what they changed beside it.
func (j *job) tune(ctx context.Context, o TuneOptions) (*TuneResult, error) {
	elapsed := j.stopwatch()
	methods, err := methodsNamed(o.Methods)
	if err != nil {
		return nil, err
	}
	work, err := ParseBudget(o.Budget)
	if err != nil {
		return nil, err
	}
	if work.Clock = j.clock; work.Time > 0 && j.Catalog.Now == nil {
		return nil, Usagef("--budget %s: there is no clock; say how many forwards", o.Budget)
	}
	if methods, err = j.fromGrams(methods, o); err != nil {
		return nil, err
	}
	c, err := j.change(ctx, o.Threads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if c.other != "" {
		return nil, fmt.Errorf("%s: this program derives other numbers than the plan has, first at %s: qwb plan rederive %s first", c.p.File, c.other, c.p.File)
	}
	t, err := c.tuning(ctx, o)
	if err != nil {
		return nil, err
	}
	end, err := t.fitOnGrams(o.Gram)
	if err != nil {
		return nil, err
	}
	defer end()
	auto := slices.Contains(o.Methods, "auto")
	if auto && t.bench.Sums == nil {
		methods = slices.DeleteFunc(slices.Clone(methods), func(m *tune.Method) bool { return slices.Contains(m.Needs, tune.NeedsStatistics) })
		if s := t.d.Stats; s != nil {
			j.note("methods that need sums are left out; the statistics lack %s", strings.Join(s.Lacks(), "; "))
		}
	}
	if auto {
		methods = tune.Auto(methods)
	}
	r := &TuneResult{Plan: j.Plan, Samples: len(t.bench.Fit) + len(t.bench.Held), HeldOut: len(t.bench.Held), HeldOutKind: t.kind}
	if r.Judged, err = t.objective(ctx, o); err != nil {
		return nil, err
	}
	t.bench.Work = work
	if err := t.resumable(methods, o); err != nil {
		return nil, err
	}
	finish := t.progress()
	r.Methods, err = t.bench.Tune(ctx, methods...)
	finish()
	if err != nil {
		return nil, err
	}
	found, err := t.settle(ctx, o.Threads)
	if err != nil {
		return nil, err
	}
	if r.Steps = len(found.overlay.Steps); r.Steps > 0 {
		r.FloatNSR = &found.steps.nsr
	}
	before, after, err := t.losses(ctx, found, o)
	if err != nil {
		return nil, err
	}
	r.Budget, r.Work = work.Limit, float64(int64(work.Spent))
	change := analysis.Paired(before.PerSample(), after.PerSample())
	r.Before, r.After = analysis.NewNSR(before.Estimate()), analysis.NewNSR(after.Estimate())
	r.Change, r.ChangeError = change.Mean, analysis.NewSpread(change).NSRError
	r.Confirmed = r.HeldOut >= analysis.MinHeldOut && change.Below(tune.WholeBar)
	kept := false
	for _, m := range r.Methods {
		kept = kept || m.Kept > 0
		if m.Note != "" {
			j.note("%s: %s", m.Name, m.Note)
		}
	}
	if kept && r.Change >= 0 && !o.Force {
		kept = false
		j.note("taken back: with the scales that the plan derives for it, it does not lower the error of the outputs")
	}
	if kept {
		if r.Overlay, err = t.write(found, r, o); err != nil {
			return nil, err
		}
	}
	if err := t.finished(); err != nil {
		return nil, err
	}
	r.Seconds = elapsed()
	return r, nil
}

// tuning is one run of tune.
type tuning struct {
	*change
	o        TuneOptions
	bench    *tune.Bench
	added    map[string]bool           // nodes that were given a bias
	kind     string                    // of the held-out samples
	grams    *calib.GramFile           // to fit on; nil: data
	observed map[string]*observedSteps // by the hash of the steps
	recent   []string                  // keys of observed, in the order in which they came
}

// tuning makes everything ready: the samples, and a reference with a bias at every operator that could have one.
func (c *change) tuning(ctx context.Context, o TuneOptions) (*tuning, error) {
	p := c.p
	t := &tuning{change: c, o: o, added: map[string]bool{}}
	fits := p.fitting()
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
	if t.bench, err = t.newBench(ctx, p.Reference.Clone(), c.d.Stats, p.Set, fits); err != nil {
		return nil, err
	}
	return t, t.read(ctx, o)
}

// newBench makes a bench on a reference that is prepared for tuned values; set is its configuration without them.
func (t *tuning) newBench(ctx context.Context, reference *graph.Graph, stats *calib.Stats, set *tqc.Set, fits *overlay.Overlay) (*tune.Bench, error) {
	if t.p.Plan.Imported == nil { // its scales are the file's own, which has none for more biases
		maps.Copy(t.added, tune.Prepare(reference, set))
	}
	b := &tune.Bench{Reference: reference, Steps: fits.Steps, Threads: t.o.Threads, Memory: t.o.Memory, Force: t.o.Force}
	if stats != nil && stats.HasSums() {
		b.Sums = stats.Sums
	}
	b.Graph, _ = fits.Apply(reference, nil)
	b.Frozen = frozenNodes(reference, fits)
	out, err := t.configure(ctx, stats, reference, b.Graph, fits)
	if err != nil {
		return nil, err
	}
	b.Set, b.Ranges = out.Set, t.ranges(stats, out.Table)
	b.Simulate = func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
		return sim.New(g, set, sim.Options{Island: t.p.Target.Island, Constants: shared, Runs: reference})
	}
	if t.p.Plan.Imported == nil {
		b.Rewrite = t.rewrite
	}
	return b, nil
}

// configure derives the plan's decisions, and more, for a graph with the same nodes, which is a reference with tuned values.
func (t *tuning) configure(ctx context.Context, stats *calib.Stats, reference, g *graph.Graph, o *overlay.Overlay, more ...decision.Decision) (*Derived, error) {
	d := &Derivation{Reference: reference, Graph: g, Overlay: o, Target: t.d.Target, Stats: stats, Imported: t.d.Imported, Threads: t.d.Threads}
	return d.Derive(ctx, append(slices.Clip(t.p.Plan.Decisions), more...))
}

// read reads all samples and splits them.
func (t *tuning) read(ctx context.Context, o TuneOptions) error {
	set, err := t.planData(t.p, o.Data, TuneSamples)
	if err != nil {
		return err
	}
	it := set.Iterator()
	var held [][32]byte
	for {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if exec.HeldOut(s.Hash) {
			t.bench.Held, held = append(t.bench.Held, s), append(held, s.Hash)
		} else {
			t.bench.Fit = append(t.bench.Fit, s)
		}
	}
	seen := map[[32]byte]bool{}
	if t.d.Stats != nil {
		for _, h := range t.d.Stats.Hashes() {
			seen[h] = true
		}
	}
	t.kind = analysis.HeldOutKind(held, func(h [32]byte) bool { return seen[h] })
	return nil
}

// progress tells of each method how many operators are done, and the error so far.
func (t *tuning) progress() (finish func()) {
	tick, end := func(int) {}, func() {}
	last := 0
	t.bench.Progress = func(p tune.Progress) {
		if p.Stage != last {
			end()
			if last = p.Stage; last == 1 && t.bench.Work.Time > 0 {
				t.note("a budget of %s is %.0f forwards", t.bench.Work.Time, t.bench.Work.Limit)
			}
			tick, end = t.change.progress(fmt.Sprintf("tune %s, centred NSR %.3g so far", p.Method, p.Error.NSR), p.Total)
		}
		tick(p.Done)
	}
	return func() { end() }
}

// tuned is the outcome of a tuning as the plan will have it.
type tuned struct {
	overlay   *overlay.Overlay
	reference *graph.Graph
	graph     *graph.Graph
	set       *tqc.Set
	steps     *observedSteps
	warnings  []tqc.Warning       // of the plan
	chosen    []decision.Decision // scales of activations
}

// settle puts together what was kept: a reference with no more biases than are needed, and the scales of the tuned graph.
func (t *tuning) settle(ctx context.Context, threads int) (*tuned, error) {
	f := &tuned{overlay: t.bench.Overlay(t.bench.Set, t.added)}
	var err error
	if f.steps, err = t.observe(ctx, f.overlay.Steps); err != nil {
		return nil, err
	}
	f.reference = f.steps.reference.Clone()
	f.overlay.Prepare(f.reference)
	g, _ := f.overlay.Apply(f.reference, nil)
	f.chosen = chosenRanges(t.bench)
	out, err := t.configure(ctx, f.steps.stats, f.reference, g, f.overlay, f.chosen...)
	if err != nil {
		return nil, err
	}
	f.set = out.Set
	if f.warnings = t.p.Plan.Warnings; f.steps.stats != nil {
		f.warnings = planWarnings(out.Warnings, f.steps.stats, t.p.Plan.Data.Synthetic)
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
func (t *tuning) losses(ctx context.Context, f *tuned, o TuneOptions) (before, after analysis.Losses, err error) {
	again := func() exec.Iterator { return &exec.InMemory{Samples: t.bench.Held} }
	for _, side := range []struct {
		reference, graph *graph.Graph
		set              *tqc.Set
		losses           *analysis.Losses
	}{{t.p.Reference, t.p.Graph, t.p.Set, &before}, {f.reference, f.graph, f.set, &after}} {
		ev, err := analysis.NewEvaluator(ctx, side.reference, again, o.Threads, 0)
		if err != nil {
			return nil, nil, err
		}
		if t.bench.Integers != nil {
			*side.losses, err = ev.LossesOf(ctx, side.graph, func(g *graph.Graph) (analysis.Forward, error) { return t.bench.Integers(g, side.set) })
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		q, err := sim.New(side.graph, side.set, sim.Options{Island: t.p.Target.Island, Runs: side.reference})
		if err != nil {
			return nil, nil, err
		}
		if *side.losses, err = ev.Losses(ctx, q); err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}

// write writes the tuned values and the plan with the decision that names them, and returns the name of their file.
func (t *tuning) write(f *tuned, r *TuneResult, o TuneOptions) (string, error) {
	file, tuned, err := t.stageOverlay(t.p.File, f.overlay)
	if err != nil {
		return "", err
	}
	statistics, observed, err := t.stageStats(t.p.File, f.steps.changed)
	if err != nil {
		return "", err
	}
	stage := func(s Stage) error {
		for _, add := range []func(Stage) error{tuned, observed} {
			if add != nil {
				if err := add(s); err != nil {
					return err
				}
			}
		}
		return nil
	}
	d := decision.Decision{By: decision.ByTune, Method: strings.Join(o.Methods, ","), Overlay: "sha256:" + file.SHA256, Statistics: statistics}
	if r.Budget > 0 {
		if d.Params, err = json.Marshal(tuneParams{Budget: fmt.Sprintf("%.0f forwards", r.Budget)}); err != nil {
			return "", fmt.Errorf("tune: %w", err)
		}
	}
	if d.Evidence, err = json.Marshal(tuneEvidence(r)); err != nil {
		return "", fmt.Errorf("tune: %w", err)
	}
	next := *t.p.Plan
	inputs, err := next.Inputs()
	if err != nil {
		return "", err
	}
	if d.After, err = decision.After(append(next.Decisions[:len(next.Decisions):len(next.Decisions)], d), len(next.Decisions), inputs); err != nil {
		return "", err
	}
	next.Decide(append([]decision.Decision{d}, f.chosen...)...)
	meta := next.Meta
	meta.Warnings = f.warnings
	np, err := plan.FromSet(f.graph, f.set, meta)
	if err != nil {
		return "", err
	}
	np.Decisions, np.Steps, np.Redo = next.Decisions, next.Steps, next.Redo
	_, err = t.writePlan(t.p.File, np, t.p.sum, stage)
	return plan.Resolve(t.p.File, file.Path), err
}
