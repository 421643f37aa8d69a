package qwb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/internal/kind"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// recipe is everything that turns a normal graph and its statistics into a configured set.
type recipe struct {
	g       *graph.Graph
	stats   *calib.Stats
	target  *target.Target
	options quantizer.Options
	threads int
	memo    calib.Memo // for configuring again with other nodes in float
	// Of an imported plan, which has no statistics: what the file says, and the graph as the target sees it.
	imported *tqc.Set
	bound    *target.Bound
}

// configured is a graph with all scales.
type configured struct {
	set        *tqc.Set
	assignment *dispatch.Assignment
	choices    []calib.Choice
	warnings   []tqc.Warning
}

// configure dispatches, configures and renders; forced nodes stay float.
func (r *recipe) configure(ctx context.Context, forced ...dispatch.Forced) (*configured, error) {
	if r.imported != nil {
		return r.release(forced)
	}
	a, err := dispatch.Assign(r.g, r.target, dispatch.Options{Forced: forced})
	if err != nil {
		return nil, err
	}
	set, warnings, err := quantizer.Configure(r.g, a, r.target, r.options)
	if err != nil {
		return nil, err
	}
	out, err := calib.Render(ctx, r.g, set, r.stats, calib.RenderConfig{Threads: r.threads, Memo: &r.memo})
	if err != nil {
		return nil, err
	}
	for _, choice := range out.Choices {
		if choice.Method != choice.Asked {
			set.Slot(choice.Slot).Method = choice.Method
		}
	}
	return &configured{set: set, assignment: a, choices: out.Choices, warnings: append(warnings, out.Warnings...)}, nil
}

// Configure dispatches a normal graph for a target and chooses all scales from its statistics.
func Configure(ctx context.Context, g *graph.Graph, stats *calib.Stats, t *target.Target, o quantizer.Options, threads int) (*tqc.Set, error) {
	c, err := (&recipe{g: g, stats: stats, target: t, options: o, threads: threads}).configure(ctx)
	if err != nil {
		return nil, err
	}
	return c.set, nil
}

// release is configure for an imported plan: the file's own grids, without those of forced nodes.
func (r *recipe) release(forced []dispatch.Forced) (*configured, error) {
	set, err := qdq.Release(r.g, r.imported, r.target, forced...)
	if err != nil {
		return nil, err
	}
	a, err := dispatch.AssignBound(r.bound, dispatch.Options{})
	if err != nil {
		return nil, err
	}
	a.Domains, a.Why, a.Fused = set.Domains, set.Why, set.Fused
	return &configured{set: set, assignment: a}, nil
}

// importedRecipe reads the quantized file again that the plan was made from.
func (j *job) importedRecipe(p *Planned) (*recipe, error) {
	file := plan.Resolve(p.File, p.Plan.Imported.Path)
	m, err := j.openModel(file)
	if err != nil {
		return nil, fmt.Errorf("%s was imported and its scales come from another file: %w", p.File, err)
	}
	defer m.Close()
	if m.Digest != p.Plan.Imported.SHA256 {
		return nil, fmt.Errorf("%s was imported from %s, which has changed: SHA-256 %.12s..., the plan says %.12s...; import it again", p.File, file, m.Digest,
			p.Plan.Imported.SHA256)
	}
	q, err := qdq.Read(m.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	im, err := q.Configure(p.Target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	written, err := plan.FromSet(im.Graph, im.Set, plan.Meta{})
	if err != nil {
		return nil, err
	}
	r := &recipe{g: p.Graph, target: p.Target}
	if r.imported, err = written.Apply(p.Graph); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r.bound, err = p.Target.Bind(p.Graph)
	return r, err
}

// Simulator makes the simulation of a set for an executor that runs the same graph, with islands in the target's precision.
func Simulator(g *graph.Graph, set *tqc.Set, t *target.Target) (*sim.Simulator, error) {
	return sim.New(g, set, sim.Options{Island: t.Island})
}

// Planned is a plan with the model it is for, ready to run.
type Planned struct {
	*Model
	File   string
	Plan   *plan.Plan
	Set    *tqc.Set
	Target *target.Target
	// Reference is the normal form, which runs in float. Graph is its clone with what was tuned (Overlay, nil for nothing), which is
	// quantized. Stale lists what was tuned and does not fit any more.
	Reference *graph.Graph
	Overlay   *overlay.Overlay
	Stale     []overlay.Stale

	catalog *Catalog
	sum     string // SHA-256 of the file as it was read
}

// openPlan reads a plan and its model, which must be the one the plan was made for.
func (j *job) openPlan(file string) (*Planned, error) {
	if err := j.check(file, "a plan", kind.Plan, kind.JSON); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p, sum, err := j.readPlan(file)
	if err != nil {
		return nil, err
	}
	t, err := j.plannedTarget(p.Platform, "", "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.Profile != t.Profile {
		return nil, fmt.Errorf("%s: unknown profile %q: %s computes as %q", file, p.Profile, t.Name, t.Profile)
	}
	path := plan.Resolve(file, p.Model.Path)
	open := j.openNormal
	if p.Imported != nil {
		open = j.openModel
	}
	m, err := open(path)
	if err != nil {
		return nil, err
	}
	if m.Digest != p.Model.SHA256 {
		m.Close()
		return nil, fmt.Errorf("%s: the plan is for another model: %s has SHA-256 %.12s..., the plan says %.12s...; run qwb calibrate again",
			file, path, m.Digest, p.Model.SHA256)
	}
	planned := &Planned{Model: m, File: file, Plan: p, Target: t, Reference: m.Graph, catalog: &j.Catalog, sum: sum}
	if p.Tuned != nil {
		if planned.Overlay, err = j.readOverlay(file, p.Tuned); err != nil {
			m.Close()
			return nil, err
		}
		m.Graph = m.Graph.Clone()
		planned.Overlay.Prepare(m.Graph)
		planned.Reference = m.Graph
	}
	if planned.Set, err = p.Apply(m.Graph); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	j.applyTuned(planned)
	return planned, nil
}

// recipe is how the plan's set can be made again with other nodes in float. It needs the statistics beside the plan or, where that
// was imported, the quantized file.
func (j *job) recipe(p *Planned, threads int) (*recipe, error) {
	if p.Plan.Imported != nil {
		return j.importedRecipe(p)
	}
	stats, err := j.planStats(p)
	if err != nil {
		return nil, err
	}
	g, _ := p.tunedGraph(nil)
	return &recipe{g: g, stats: stats, target: p.Target, threads: threads, options: quantizer.Options{
		Activation: p.Plan.Observers.Activation, Weight: p.Plan.Observers.Weight, ReduceRange: p.Plan.ReduceRange, PerTensor: p.Plan.PerTensor}}, nil
}

// sampleHashes lists the hashes of the samples behind statistics.
func sampleHashes(stats *calib.Stats) [][32]byte {
	list := make([][32]byte, stats.Samples())
	for i, h := range stats.Hashes() {
		list[i] = h
	}
	return list
}

// byUser lists the nodes that the user sent to float, as the plan records it.
func (p *Planned) byUser() dispatch.Forced {
	f := dispatch.Forced{Who: dispatch.ByUser}
	for _, id := range p.Graph.Nodes() {
		if p.Set.Domains[id] == tqc.DomainFP32 && strings.HasPrefix(p.Set.Why[id], dispatch.ByUser) {
			f.Nodes = append(f.Nodes, id)
		}
	}
	return f
}

// Data returns the plan's own data set, or the one given on the command line.
func (p *Planned) Data(o DataOptions) DataOptions {
	o = o.Of(p.Model)
	o.Stored = &p.Plan.Preprocess
	if o.Tokenizer == "" && p.Plan.Preprocess.Tokenizer != "" {
		o.Tokenizer = plan.Resolve(p.File, p.Plan.Preprocess.Tokenizer)
	}
	if len(o.Paths) == 0 {
		o.Paths = locate(p.File, p.Plan.Data.Paths)
		if o.Samples == 0 {
			o.Samples = p.Plan.Samples
		}
		if o.Seed == 0 {
			o.Seed = uint64(p.Plan.Seed)
		}
	}
	return o
}

// preprocessKey is the canonical text of a preprocessing: what statistics record it as.
func preprocessKey(p plan.Preprocess) (string, error) {
	b, err := json.Marshal(p)
	return string(b), err
}

func parsePreprocessKey(key string) (p plan.Preprocess, err error) {
	err = json.Unmarshal([]byte(key), &p)
	return p, err
}

// planData opens the data set given, or the plan's own with at most limit samples unless a number was asked for.
func (j *job) planData(p *Planned, o DataOptions, limit int) (*data.Set, error) {
	own := len(o.Paths) == 0
	asked := o.Samples
	o = p.Data(o)
	if own && asked == 0 && o.Samples > limit {
		o.Samples = limit
	}
	set, _, err := j.openData(p.Graph, o)
	return set, err
}
