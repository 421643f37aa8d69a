package qwb

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/dispatch"
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
	Memory  int64 // for activations to restart from
	Force   bool  // keep what cannot be confirmed
}

// TuneResult is what tune --json prints. Before and After are the error of the outputs on the held-out samples, see analysis.Judge.
type TuneResult struct {
	Plan        string         `json:"plan"`
	Overlay     string         `json:"overlay"` // the file of tuned values; empty where nothing was kept
	Samples     int            `json:"samples"`
	HeldOut     int            `json:"held_out"`
	HeldOutKind string         `json:"held_out_kind"`
	Before      analysis.NSR   `json:"before"`
	After       analysis.NSR   `json:"after"`
	Change      float64        `json:"change"` // mean of after - before over the held-out samples, paired
	ChangeError *float64       `json:"change_error"`
	Confirmed   bool           `json:"confirmed"`
	Methods     []*tune.Report `json:"methods"`
	Seconds     float64        `json:"seconds"`
}

// methodsNamed finds methods by their names.
func methodsNamed(names []string) ([]*tune.Method, error) {
	var list []*tune.Method
	for _, name := range names {
		if name == "auto" {
			return tune.Methods, nil
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
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	t, err := j.tuning(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if slices.Contains(o.Methods, "auto") && t.bench.Sums == nil {
		methods = slices.DeleteFunc(slices.Clone(methods), func(m *tune.Method) bool { return slices.Contains(m.Needs, tune.NeedsStatistics) })
		if s := t.recipe.stats; s != nil {
			j.note("methods that need sums are left out; the statistics lack %s", strings.Join(s.Lacks(), "; "))
		}
	}
	r := &TuneResult{Plan: j.Plan, Samples: len(t.bench.Fit) + len(t.bench.Held), HeldOut: len(t.bench.Held), HeldOutKind: t.kind}
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
	before, after, err := t.losses(ctx, found, o)
	if err != nil {
		return nil, err
	}
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
	if kept {
		if err := t.write(j, found); err != nil {
			return nil, err
		}
		r.Overlay = plan.Resolve(p.File, p.Plan.Tuned.Path)
	}
	r.Seconds = elapsed()
	return r, nil
}

// tuning is one run of tune.
type tuning struct {
	p      *Planned
	recipe *recipe
	forced []dispatch.Forced
	bench  *tune.Bench
	added  map[string]bool // nodes that were given a bias
	kind   string          // of the held-out samples
	job    *job
}

// tuning makes everything ready: the samples, and a reference with a bias at every operator that could have one.
func (j *job) tuning(ctx context.Context, p *Planned, o TuneOptions) (*tuning, error) {
	r, err := j.recipe(p, o.Threads)
	if err != nil {
		return nil, err
	}
	t := &tuning{p: p, recipe: r, forced: p.sent(), job: j, added: map[string]bool{}}
	reference := p.Reference.Clone()
	if p.Plan.Imported == nil { // its scales are the file's own, which has none for more biases
		t.added = tune.AddBiases(reference, p.Set)
	}
	if p.Overlay != nil {
		for _, e := range p.Overlay.Entries {
			if e.Added {
				t.added[e.Node] = true
			}
		}
	}
	t.bench = &tune.Bench{Reference: reference, Graph: reference.Clone(), Threads: o.Threads, Memory: o.Memory, Force: o.Force}
	if r.stats != nil && r.stats.HasSums() {
		t.bench.Sums = r.stats.Sums
	}
	if p.Overlay != nil { // what is stale is tuned anew
		t.bench.Graph, _ = p.Overlay.Apply(reference, nil)
	}
	c, err := t.configure(ctx, t.bench.Graph)
	if err != nil {
		return nil, err
	}
	t.bench.Set = c.set
	t.bench.Simulate = func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
		return sim.New(g, set, sim.Options{Island: p.Target.Island, Constants: shared, Runs: reference})
	}
	return t, t.read(ctx, o)
}

// sent lists the nodes that somebody sent to float, and who.
func (p *Planned) sent() []dispatch.Forced {
	search := dispatch.Forced{Who: dispatch.BySearch}
	for _, id := range p.Graph.Nodes() {
		if p.Set.Domains[id] == tqc.DomainFP32 && strings.HasPrefix(p.Set.Why[id], dispatch.BySearch) {
			search.Nodes = append(search.Nodes, id)
		}
	}
	return []dispatch.Forced{p.byUser(), search}
}

// configure is the recipe's for another graph with the same nodes.
func (t *tuning) configure(ctx context.Context, g *graph.Graph) (*configured, error) {
	from := t.recipe
	r := &recipe{g: g, stats: from.stats, target: from.target, options: from.options, threads: from.threads, imported: from.imported, bound: from.bound}
	return r.configure(ctx, t.forced...)
}

// read reads all samples and splits them.
func (t *tuning) read(ctx context.Context, o TuneOptions) error {
	set, err := t.job.planData(t.p, o.Data, TuneSamples)
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
	if t.recipe.stats != nil {
		for _, h := range t.recipe.stats.Hashes() {
			seen[h] = true
		}
	}
	t.kind = analysis.HeldOutKind(held, func(h [32]byte) bool { return seen[h] })
	return nil
}

func (t *tuning) progress() (finish func()) {
	tick, end := t.job.progress("tune", 0)
	t.bench.Progress = func(done, _ int) { tick(done) }
	return end
}

// tuned is the outcome of a tuning as the plan will have it.
type tuned struct {
	overlay   *overlay.Overlay
	reference *graph.Graph
	graph     *graph.Graph
	set       *tqc.Set
}

// settle puts together what was kept: a reference with no more biases than are needed, and the scales of the tuned graph.
func (t *tuning) settle(ctx context.Context, threads int) (*tuned, error) {
	f := &tuned{overlay: t.bench.Overlay(t.bench.Set, t.added)}
	normal, err := t.job.normalAgain(t.p)
	if err != nil {
		return nil, err
	}
	f.reference = normal
	f.overlay.Prepare(f.reference)
	g, _ := f.overlay.Apply(f.reference, nil)
	c, err := t.configure(ctx, g)
	if err != nil {
		return nil, err
	}
	f.set = c.set
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
	again := func() exec.Iterator { return &inMemory{samples: t.bench.Held} }
	for _, side := range []struct {
		reference, graph *graph.Graph
		set              *tqc.Set
		losses           *analysis.Losses
	}{{t.p.Reference, t.p.Graph, t.p.Set, &before}, {f.reference, f.graph, f.set, &after}} {
		ev, err := analysis.NewEvaluator(ctx, side.reference, again, o.Threads, 0)
		if err != nil {
			return nil, nil, err
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

// write writes the tuned values and the plan that names them.
func (t *tuning) write(j *job, f *tuned) error {
	file, stage, err := j.stageOverlay(t.p.File, f.overlay)
	if err != nil {
		return err
	}
	meta := t.p.Plan.Meta
	meta.Tuned = file
	np, err := plan.FromSet(f.graph, f.set, meta)
	if err != nil {
		return err
	}
	t.p.Plan = np
	_, err = j.writePlan(t.p.File, np, t.p.sum, stage)
	return err
}

// inMemory is a data set that was read.
type inMemory struct {
	samples []*exec.Sample
	at      int
}

func (l *inMemory) Next(context.Context) (*exec.Sample, error) {
	if l.at == len(l.samples) {
		return nil, io.EOF
	}
	l.at++
	return l.samples[l.at-1], nil
}

func (l *inMemory) Len() int { return len(l.samples) }
