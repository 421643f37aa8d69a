// Package compare holds plans, models and recorded outputs against each other, on the same samples or by what they say.
package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

// Options are the arguments of compare.
type Options struct {
	// Runs are what is compared: plans, models, models that a tool quantized, and recorded outputs: a folder as run writes one, or an npy or
	// npz file with a row for each sample.
	Runs []string
	// Float is the float model that errors are measured against; empty: that of each plan, for other runs that of the first plan or float
	// model among Runs.
	Float   string
	Mode    string // of plans: sim (also "") or int8
	Backend string // of mode int8
	Profile string // of mode int8; empty: the platform's
	// Data are the samples, without paths the first plan's own, and the metric that scores the answers: without a name top1 where the samples
	// have labels or the network gives one row of class scores, else none.
	Data    open.DataOptions
	Slice   string // the part of an output that gate asks for
	Layers  int    // samples on which the error at every operator is compared
	Threads int
}

// Result is what compare --json prints.
type Result struct {
	*analysis.Comparison
	Seconds float64 `json:"seconds"`
}

// CompareLayers is on how many samples compare measures the error at every operator unless told otherwise.
const CompareLayers = 16

func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	if len(o.Runs) < 2 {
		return nil, fault.Usagef("compare takes two or more runs")
	}
	c, err := Open(j, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	runs, err := c.Run(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Comparison: runs.Figures(c.Metric, c.Scorer)}
	r.LayerSamples = min(max(c.Options.Layers, 0), r.Samples)
	r.Agreement = c.Agreement
	if err := c.settings(ctx, r.Pairs); err != nil {
		return nil, err
	}
	r.Seconds = elapsed()
	return r, nil
}

// Contest is several runs of networks on the same samples.
type Contest struct {
	*open.Job
	Options       Options
	Entrants      []analysis.Entrant
	Planned       []*planning.Planned // by entrant; nil for others
	ends          []func()
	Set           *data.Set
	Iterator      func() exec.Iterator // of the samples that are run
	Preprocessing plan.Preprocess      // of the samples
	Metric        *task.Metric
	Scorer        task.Scorer
	// agreement says that float's answers are what is right.
	Agreement bool
	serial    bool
}

func (c *Contest) Close() {
	for _, end := range c.ends {
		end()
	}
}

func Open(j *open.Job, o Options) (*Contest, error) {
	c := &Contest{Job: j, Options: o}
	if err := c.open(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Contest) open() error {
	floats, base, spec, err := c.openNetworks()
	if err != nil {
		return err
	}
	if base == nil {
		return fault.Usagef("nothing says which float network the errors are measured against: name it with --float MODEL, " +
			"or compare with a plan")
	}
	if err := c.openSamples(spec); err != nil {
		return err
	}
	for i := range c.Entrants {
		k := &c.Entrants[i]
		if p := c.Planned[i]; p != nil {
			k.Float = floats[p.Digest]
			continue
		}
		if k.Float == nil {
			k.Float = base
		}
		if k.Graph == nil {
			r, err := openRecording(c.Job, k.Name, k.Float, c.Set.Len())
			if err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			k.Forward = func(_ context.Context, i int, s *exec.Sample) ([]*tensor.Tensor, error) { return r.sample(i, s) }
		}
	}
	return nil
}

// openNetworks opens plans and models. base is the float network of what brings none of its own, spec what data are read for.
func (c *Contest) openNetworks() (floats map[string]*graph.Graph, base *graph.Graph,
	spec func(open.DataOptions) (*graph.Graph, open.DataOptions), err error) {
	floats = map[string]*graph.Graph{}
	keep := func(digest string, g *graph.Graph) *graph.Graph {
		if floats[digest] == nil {
			floats[digest] = g
		}
		if base == nil {
			base = floats[digest]
		}
		return floats[digest]
	}
	ofModel := func(m *open.Model) func(open.DataOptions) (*graph.Graph, open.DataOptions) {
		return func(o open.DataOptions) (*graph.Graph, open.DataOptions) { return m.Graph, o.Of(m) }
	}
	if c.Options.Float != "" {
		m, err := c.model(c.Options.Float, true)
		if err != nil {
			return nil, nil, nil, err
		}
		keep(m.Digest, m.Graph)
		spec = ofModel(m)
	}
	for _, file := range c.Options.Runs {
		k := analysis.Entrant{Name: file}
		var p *planning.Planned
		switch {
		case strings.HasSuffix(file, store.PlanSuffix):
			if p, err = c.plan(file, &k); err != nil {
				return nil, nil, nil, err
			}
			g := p.Reference
			if p.Overlay != nil && len(p.Overlay.Steps) > 0 && floats[p.Digest] == nil {
				if g, err = planning.NormalAgain(c.Job, p); err != nil {
					return nil, nil, nil, err
				}
			}
			keep(p.Digest, g)
			if !c.anyPlan() {
				spec = func(o open.DataOptions) (*graph.Graph, open.DataOptions) { return p.Graph, p.Data(o) }
			}
		case !isRecording(c.Files(), file):
			m, err := c.model(file, false)
			if err != nil {
				return nil, nil, nil, err
			}
			if k.Graph = m.Graph; open.Unquantized(m) == nil {
				k.Graph = keep(m.Digest, m.Graph)
				k.Float = k.Graph
			}
			if spec == nil {
				spec = ofModel(m)
			}
		}
		c.Entrants, c.Planned = append(c.Entrants, k), append(c.Planned, p)
	}
	return floats, base, spec, nil
}

func (c *Contest) anyPlan() bool {
	for _, p := range c.Planned {
		if p != nil {
			return true
		}
	}
	return false
}

// model opens a model: a float one in normal form, as plans have it, a quantized one as it is.
func (c *Contest) model(file string, float bool) (*open.Model, error) {
	m, err := c.OpenModel(file)
	if err != nil {
		return nil, err
	}
	if open.Unquantized(m) == nil {
		m.Close()
		m, err = c.OpenNormal(file)
	} else if float {
		m.Close()
		return nil, fmt.Errorf("compare: --float %s is a quantized model", file)
	}
	if err == nil {
		c.ends = append(c.ends, func() { m.Close() })
	}
	return m, err
}

// plan opens a plan and makes the entrant that runs it.
func (c *Contest) plan(file string, k *analysis.Entrant) (*planning.Planned, error) {
	p, err := planning.OpenPlan(c.Job, file)
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { p.Close() })
	if c.Options.Mode != "int8" {
		k.Graph = p.Reference
		k.Simulator, err = p.Simulator()
		return p, err
	}
	profile, err := p.ProfileNamed(c.Options.Profile)
	if err != nil {
		return nil, err
	}
	x, err := p.Executor(c.Options.Backend, profile, 1, c.Options.Threads)
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { x.Close() })
	c.serial = true
	k.Forward = func(ctx context.Context, _ int, s *exec.Sample) ([]*tensor.Tensor, error) {
		return x.Run(ctx, s.Feeds, nil)
	}
	if analysis.AnyCounted(p.Reference) { // what is in front of such an output is the simulation's
		k.Graph = p.Reference
		k.Simulator, err = p.Simulator()
	}
	return p, err
}

// openSamples opens the data, the first plan's own unless some are given, and says what makes them a poor judge.
func (c *Contest) openSamples(spec func(open.DataOptions) (*graph.Graph, open.DataOptions)) error {
	g, o := spec(c.Options.Data)
	var first *planning.Planned
	for _, p := range c.Planned {
		if p == nil {
			continue
		}
		if first == nil {
			first = p
		}
		a, err := planning.PreprocessKey(first.Plan.Preprocess)
		if err != nil {
			return err
		}
		b, err := planning.PreprocessKey(p.Plan.Preprocess)
		if err != nil {
			return err
		}
		if a != b && c.Options.Data.Preprocess == "" {
			c.Warn("%s has another preprocessing than %s, whose it is that is used; --preprocess says which", p.File, first.File)
		}
	}
	var err error
	if c.Set, c.Preprocessing, err = c.OpenData(g, o); err == nil {
		c.Iterator = c.Set.Iterator
	}
	return err
}

// openMetric finds what scores the answers.
func (c *Contest) openMetric(ctx context.Context) error {
	o := c.Options.Data
	if named := len(o.Metric.Names) > 0 || o.Metric.Command != ""; !named {
		if o.Labels == "" && c.Set.RequireLabels() != nil && !open.ScoresClasses(c.Entrants[0].Float, o.Metric.First(c.Entrants[0].Float)) {
			return nil
		}
		o.Metric.Names = []string{"top1"}
	}
	scorings, closing, err := c.Scorings(ctx, c.Entrants[0].Float, c.Set, o)
	c.ends = append(c.ends, closing)
	if len(scorings) > 1 {
		err = fault.Usagef("--metric: one metric, not %d", len(scorings))
	}
	if err == nil {
		c.Metric, c.Scorer, c.Agreement = scorings[0].Metric, scorings[0].Scorer, scorings[0].Float
	}
	return err
}

// Run runs all samples through all entrants, and warns of samples that a plan was calibrated on.
func (c *Contest) Run(ctx context.Context) (*analysis.Runs, error) {
	if err := c.openMetric(ctx); err != nil {
		return nil, err
	}
	tick, finish := c.Progress("compare", c.Set.Len())
	defer finish()
	parts, err := samples.Slices(c.Job, c.Options.Data.Slices, c.Entrants[0].Float)
	if err == nil && c.Options.Slice != "" {
		parts, err = samples.NamedSlice(c.Job, c.Options.Slice, c.Options.Runs[0], c.Entrants[0].Float, parts)
	}
	if err != nil {
		return nil, err
	}
	r, err := analysis.CompareRuns(ctx, c.Iterator(), c.Entrants, analysis.RunsConfig{Metric: c.Metric, Scorer: c.Scorer, Parts: parts,
		Output: c.Options.Data.Metric.First(c.Entrants[0].Float), Layers: c.Options.Layers, Serial: c.serial,
		Threads: c.Options.Threads, Memory: c.Options.Data.Budget, Progress: tick})
	if err != nil {
		return nil, samples.BudgetHint(err)
	}
	hashes := samples.Hashes(r)
	warned := map[string]bool{}
	for _, p := range c.Planned {
		if p == nil {
			continue
		}
		if stats, err := planning.PlanStats(c.Job, p); err == nil {
			for _, w := range data.Overlap(planning.SampleHashes(stats), hashes) {
				if !warned[w.Text] {
					c.WarnAbout(w)
				}
				warned[w.Text] = true
			}
		}
	}
	return r, nil
}

// settings fills in what plans and quantized files of the same network decide differently.
func (c *Contest) settings(ctx context.Context, pairs []analysis.PairOfRuns) error {
	n := 0
	for _, pair := range analysis.Pairs(len(c.Entrants)) {
		f := &pairs[n]
		n++
		if err := ctx.Err(); err != nil {
			return err
		}
		a, b := c.Planned[pair[0]], c.Planned[pair[1]]
		if a == nil || b == nil {
			continue
		}
		x, y := analysis.Configured{Graph: a.Graph, Set: a.Set}, analysis.Configured{Graph: b.Graph, Set: b.Set}
		s, err := analysis.Structures(x, y)
		if err != nil {
			return err
		}
		if f.Different = s.Different(); f.Different != "" { // operators of one name are chance
			f.Layers = nil
			continue
		}
		d, err := analysis.Diff(x, y)
		if err != nil {
			return err
		}
		d.Differences = nil
		f.Settings = d
	}
	return nil
}

// Figures are what is kept of a result beside the plan that is open.
var Figures = func(r *Result) json.RawMessage {
	var lines []string
	for i := range r.Pairs[:min(3, len(r.Pairs))] {
		p := &r.Pairs[i]
		lines = append(lines, fmt.Sprintf("%s and %s: NSR by %.3g, significant: %v", p.A, p.B, p.NSRChange, p.Significant))
	}
	return journal.Object(struct {
		Samples int      `json:"samples"`
		Pairs   []string `json:"pairs"`
	}{r.Samples, lines})
}

// RunFigures are what is kept of run i of a result beside its own plan: where labels judged it, its score is as that of eval.
func RunFigures(i int) func(*Result) json.RawMessage {
	return func(r *Result) json.RawMessage {
		x := &r.Runs[i]
		f := struct {
			N       int      `json:"n,omitempty"`
			Metric  string   `json:"metric,omitempty"`
			Percent bool     `json:"percent,omitempty"`
			Value   *float64 `json:"value,omitempty"`
		}{}
		if x.Score != nil && !r.Agreement {
			f.N, f.Metric, f.Percent, f.Value = r.Samples, r.Metric, r.Percent, x.Score
			if n, is := strings.CutPrefix(f.Metric, "top"); is {
				f.Metric = "top-" + n
			}
		}
		picked := journal.Picked[analysis.RunFigures]("float drop drop_error flips nsr nsr_error")(x)
		if rest := picked[1:]; f.N > 0 && len(rest) > 1 {
			b := journal.Object(f)
			return slices.Concat(b[:len(b)-1], []byte(","), rest)
		}
		return picked
	}
}
