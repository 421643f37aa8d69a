package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
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
func (e *env) importedRecipe(p *planned) (*recipe, error) {
	file := plan.Resolve(p.file, p.plan.Imported.Path)
	m, err := e.openModel(file)
	if err != nil {
		return nil, fmt.Errorf("%s was imported and its scales come from another file: %w", p.file, err)
	}
	defer m.Close()
	if m.digest != p.plan.Imported.SHA256 {
		return nil, fmt.Errorf("%s was imported from %s, which has changed: SHA-256 %.12s..., the plan says %.12s...; import it again", p.file, file, m.digest,
			p.plan.Imported.SHA256)
	}
	q, err := qdq.Read(m.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	im, err := q.Configure(p.target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	written, err := plan.FromSet(im.Graph, im.Set, plan.Meta{})
	if err != nil {
		return nil, err
	}
	r := &recipe{g: p.Graph, target: p.target}
	if r.imported, err = written.Apply(p.Graph); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r.bound, err = p.target.Bind(p.Graph)
	return r, err
}

// simulator makes the simulation of a set, with islands in the target's precision.
func simulator(g *graph.Graph, set *tqc.Set, t *target.Target) (*sim.Simulator, error) {
	return simulatorWith(g, set, t, nil)
}

// simulatorWith is simulator for one of many sets of a graph, which share the parameters that they quantize alike.
func simulatorWith(g *graph.Graph, set *tqc.Set, t *target.Target, shared *sim.Constants) (*sim.Simulator, error) {
	return sim.New(g, set, sim.Options{Island: t.Island, Constants: shared})
}

// planned is a plan with the model it is for, ready to run.
type planned struct {
	*model
	file   string
	plan   *plan.Plan
	set    *tqc.Set
	target *target.Target
}

// openPlan reads a plan and its model, which must be the one the plan was made for.
func (e *env) openPlan(file string) (*planned, error) {
	p, err := plan.Read(file)
	if err != nil {
		return nil, err
	}
	t, err := target.Known(p.Platform)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.Profile != t.Profile {
		return nil, fmt.Errorf("%s: unknown profile %q: %s computes as %q", file, p.Profile, t.Name, t.Profile)
	}
	path := plan.Resolve(file, p.Model.Path)
	open := e.openNormal
	if p.Imported != nil {
		open = e.openModel
	}
	m, err := open(path)
	if err != nil {
		return nil, err
	}
	if m.digest != p.Model.SHA256 {
		m.Close()
		return nil, fmt.Errorf("%s: the plan is for another model: %s has SHA-256 %.12s..., the plan says %.12s...; run qwb calibrate again",
			file, path, m.digest, p.Model.SHA256)
	}
	set, err := p.Apply(m.Graph)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &planned{model: m, file: file, plan: p, set: set, target: t}, nil
}

// recipe is how the plan's set can be made again with other nodes in float. It needs the statistics beside the plan or, where that
// was imported, the quantized file.
func (e *env) recipe(p *planned, threads int) (*recipe, error) {
	if p.plan.Imported != nil {
		return e.importedRecipe(p)
	}
	stats, err := loadStats(statsPath(p.file), p.model)
	if err != nil {
		return nil, err
	}
	return &recipe{g: p.Graph, stats: stats, target: p.target, threads: threads, options: quantizer.Options{
		Activation: p.plan.Observers.Activation, Weight: p.plan.Observers.Weight, ReduceRange: p.plan.ReduceRange, PerTensor: p.plan.PerTensor}}, nil
}

// loadStats reads statistics, which must be of this model.
func loadStats(path string, m *model) (*calib.Stats, error) {
	stats, err := calib.Load(path)
	if err != nil {
		return nil, err
	}
	if stats.Model != m.digest {
		return nil, fmt.Errorf("%s: the statistics are of another model (SHA-256 %.12s..., %s has %.12s...)", path, stats.Model, m.path, m.digest)
	}
	return stats, nil
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
func (p *planned) byUser() dispatch.Forced {
	f := dispatch.Forced{Who: dispatch.ByUser}
	for _, id := range p.Graph.Nodes() {
		if p.set.Domains[id] == tqc.DomainFP32 && strings.HasPrefix(p.set.Why[id], dispatch.ByUser) {
			f.Nodes = append(f.Nodes, id)
		}
	}
	return f
}

// data returns the plan's own data set, or the one given on the command line.
func (p *planned) data(o dataOptions) dataOptions {
	o = o.of(p.model)
	o.stored = &p.plan.Preprocess
	if o.tokenizer == "" && p.plan.Preprocess.Tokenizer != "" {
		o.tokenizer = plan.Resolve(p.file, p.plan.Preprocess.Tokenizer)
	}
	if len(o.paths) == 0 {
		o.paths = locate(p.file, p.plan.Data.Paths)
		if o.samples == 0 {
			o.samples = p.plan.Samples
		}
		if o.seed == 0 {
			o.seed = uint64(p.plan.Seed)
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
func (e *env) planData(p *planned, o dataOptions, limit int) (*data.Set, error) {
	own := len(o.paths) == 0
	asked := o.samples
	o = p.data(o)
	if own && asked == 0 && o.samples > limit {
		o.samples = limit
	}
	set, _, err := e.openData(p.Graph, o)
	return set, err
}
