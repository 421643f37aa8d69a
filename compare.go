package qwb

import (
	"context"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// CompareOptions are the arguments of compare.
type CompareOptions struct {
	// Runs are what is compared: plans, models, models that a tool quantized, and recorded outputs: a folder as run writes one, or an npy or npz
	// file with a row for each sample.
	Runs []string
	// Float is the float model that errors are measured against; empty: that of each plan, for other runs that of the first plan or float
	// model among Runs.
	Float   string
	Mode    string // of plans: sim (also "") or int8
	Backend string // of mode int8
	Profile string // of mode int8; empty: the platform's
	// Data are the samples, without paths the first plan's own, and the metric that scores the answers: without a name top1 where the samples have
	// labels or the network gives one row of class scores, else none.
	Data    DataOptions
	Slice   string // the part of an output that gate asks for
	Layers  int    // samples on which the error at every operator is compared
	Threads int
}

// CompareResult is what compare --json prints.
type CompareResult struct {
	*analysis.Comparison
	Seconds float64 `json:"seconds"`
}

// CompareLayers is on how many samples compare measures the error at every operator unless told otherwise.
const CompareLayers = 16

func (j *job) compare(ctx context.Context, o CompareOptions) (*CompareResult, error) {
	elapsed := j.stopwatch()
	if len(o.Runs) < 2 {
		return nil, Usagef("compare takes two or more runs")
	}
	c, err := j.openContest(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	runs, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	r := &CompareResult{Comparison: runs.Figures(c.metric, c.scorer)}
	r.LayerSamples = min(max(c.o.Layers, 0), r.Samples)
	r.Agreement = c.agreement
	if err := c.settings(ctx, r.Pairs); err != nil {
		return nil, err
	}
	r.Seconds = elapsed()
	return r, nil
}

// contest is several runs of networks on the same samples.
type contest struct {
	*job
	o        CompareOptions
	entrants []analysis.Entrant
	planned  []*Planned // by entrant; nil for others
	ends     []func()
	set      *data.Set
	iterator func() exec.Iterator // of the samples that are run
	pre      plan.Preprocess      // of the samples
	metric   *task.Metric
	scorer   task.Scorer
	// agreement says that float's answers are what is right.
	agreement bool
	serial    bool
}

func (c *contest) close() {
	for _, end := range c.ends {
		end()
	}
}

func (j *job) openContest(o CompareOptions) (*contest, error) {
	c := &contest{job: j, o: o}
	if err := c.open(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *contest) open() error {
	floats, base, spec, err := c.openNetworks()
	if err != nil {
		return err
	}
	if base == nil {
		return Usagef("nothing says which float network the errors are measured against: name it with --float MODEL, or compare with a plan")
	}
	if err := c.openSamples(spec); err != nil {
		return err
	}
	for i := range c.entrants {
		k := &c.entrants[i]
		if p := c.planned[i]; p != nil {
			k.Float = floats[p.Digest]
			continue
		}
		if k.Float == nil {
			k.Float = base
		}
		if k.Graph == nil {
			r, err := c.openRecording(k.Name, k.Float, c.set.Len())
			if err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			k.Forward = func(_ context.Context, i int, s *exec.Sample) ([]*tensor.Tensor, error) { return r.sample(i, s) }
		}
	}
	return nil
}

// openNetworks opens plans and models. base is the float network of what brings none of its own, spec what data are read for.
func (c *contest) openNetworks() (floats map[string]*graph.Graph, base *graph.Graph, spec func(DataOptions) (*graph.Graph, DataOptions), err error) {
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
	ofModel := func(m *Model) func(DataOptions) (*graph.Graph, DataOptions) {
		return func(o DataOptions) (*graph.Graph, DataOptions) { return m.Graph, o.Of(m) }
	}
	if c.o.Float != "" {
		m, err := c.model(c.o.Float, true)
		if err != nil {
			return nil, nil, nil, err
		}
		keep(m.Digest, m.Graph)
		spec = ofModel(m)
	}
	for _, file := range c.o.Runs {
		k := analysis.Entrant{Name: file}
		var p *Planned
		switch {
		case strings.HasSuffix(file, PlanSuffix):
			if p, err = c.plan(file, &k); err != nil {
				return nil, nil, nil, err
			}
			g := p.Reference
			if p.Overlay != nil && len(p.Overlay.Steps) > 0 && floats[p.Digest] == nil {
				if g, err = c.normalAgain(p); err != nil {
					return nil, nil, nil, err
				}
			}
			keep(p.Digest, g)
			if !c.anyPlan() {
				spec = func(o DataOptions) (*graph.Graph, DataOptions) { return p.Graph, p.Data(o) }
			}
		case !isRecording(c.store(), file):
			m, err := c.model(file, false)
			if err != nil {
				return nil, nil, nil, err
			}
			if k.Graph = m.Graph; unquantized(m) == nil {
				k.Graph = keep(m.Digest, m.Graph)
				k.Float = k.Graph
			}
			if spec == nil {
				spec = ofModel(m)
			}
		}
		c.entrants, c.planned = append(c.entrants, k), append(c.planned, p)
	}
	return floats, base, spec, nil
}

func (c *contest) anyPlan() bool {
	for _, p := range c.planned {
		if p != nil {
			return true
		}
	}
	return false
}

// model opens a model: a float one in normal form, as plans have it, a quantized one as it is.
func (c *contest) model(file string, float bool) (*Model, error) {
	m, err := c.openModel(file)
	if err != nil {
		return nil, err
	}
	if unquantized(m) == nil {
		m.Close()
		m, err = c.openNormal(file)
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
func (c *contest) plan(file string, k *analysis.Entrant) (*Planned, error) {
	p, err := c.openPlan(file)
	if err != nil {
		return nil, err
	}
	c.ends = append(c.ends, func() { p.Close() })
	if c.o.Mode != "int8" {
		k.Graph = p.Reference
		k.Simulator, err = p.Simulator()
		return p, err
	}
	profile, err := p.ProfileNamed(c.o.Profile)
	if err != nil {
		return nil, err
	}
	x, err := p.Executor(c.o.Backend, profile, 1, c.o.Threads)
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
func (c *contest) openSamples(spec func(DataOptions) (*graph.Graph, DataOptions)) error {
	g, o := spec(c.o.Data)
	var first *Planned
	for _, p := range c.planned {
		if p == nil {
			continue
		}
		if first == nil {
			first = p
		}
		a, err := preprocessKey(first.Plan.Preprocess)
		if err != nil {
			return err
		}
		b, err := preprocessKey(p.Plan.Preprocess)
		if err != nil {
			return err
		}
		if a != b && c.o.Data.Preprocess == "" {
			c.warn("%s has another preprocessing than %s, whose it is that is used; --preprocess says which", p.File, first.File)
		}
	}
	var err error
	if c.set, c.pre, err = c.openData(g, o); err == nil {
		c.iterator = c.set.Iterator
	}
	return err
}

// openMetric finds what scores the answers.
func (c *contest) openMetric(ctx context.Context) error {
	o := c.o.Data
	if named := len(o.Metric.Names) > 0 || o.Metric.Command != ""; !named {
		if o.Labels == "" && c.set.RequireLabels() != nil && !scoresClasses(c.entrants[0].Float, o.Metric.first(c.entrants[0].Float)) {
			return nil
		}
		o.Metric.Names = []string{"top1"}
	}
	scorings, closing, err := c.scorings(ctx, c.entrants[0].Float, c.set, o)
	c.ends = append(c.ends, closing)
	if len(scorings) > 1 {
		err = Usagef("--metric: one metric, not %d", len(scorings))
	}
	if err == nil {
		c.metric, c.scorer, c.agreement = scorings[0].Metric, scorings[0].Scorer, scorings[0].Float
	}
	return err
}

// scoresClasses reports whether output k of a graph is one row of numbers, as class scores are, or one whole number, as a class is. An open
// dimension counts as a row, but for that of the batch.
func scoresClasses(g *graph.Graph, k int) bool {
	v := g.Value(g.Outputs[k])
	if v.Shape == nil || analysis.Counted(g, k) {
		return false
	}
	if v.DType == tensor.Int64 || v.DType == tensor.Int32 {
		n, err := v.Shape.Elements()
		return err == nil && n == 1 || len(v.Shape) == 1 && !v.Shape[0].Known()
	}
	if !v.DType.IsFloat() {
		return false
	}
	long := 0
	for i, d := range v.Shape {
		if d.N > 1 || d.N <= 0 && i > 0 {
			long++
		}
	}
	return long == 1
}

// run runs all samples through all entrants, and warns of samples that a plan was calibrated on.
func (c *contest) run(ctx context.Context) (*analysis.Runs, error) {
	if err := c.openMetric(ctx); err != nil {
		return nil, err
	}
	tick, finish := c.progress("compare", c.set.Len())
	defer finish()
	parts, err := c.parts(c.o.Data.Slices, c.entrants[0].Float)
	if err == nil && c.o.Slice != "" {
		parts, err = c.namedSlice(c.o.Slice, c.o.Runs[0], c.entrants[0].Float, parts)
	}
	if err != nil {
		return nil, err
	}
	r, err := analysis.CompareRuns(ctx, c.iterator(), c.entrants, analysis.RunsConfig{Metric: c.metric, Scorer: c.scorer, Parts: parts,
		Output: c.o.Data.Metric.first(c.entrants[0].Float), Layers: c.o.Layers, Serial: c.serial,
		Threads: c.o.Threads, Memory: c.o.Data.Budget, Progress: tick})
	if err != nil {
		return nil, budgetHint(err)
	}
	hashes := hashesOf(r)
	warned := map[string]bool{}
	for _, p := range c.planned {
		if p == nil {
			continue
		}
		if stats, err := c.planStats(p); err == nil {
			for _, w := range data.Overlap(sampleHashes(stats), hashes) {
				if !warned[w.Text] {
					c.warnAbout(w)
				}
				warned[w.Text] = true
			}
		}
	}
	return r, nil
}

// settings fills in what plans and quantized files of the same network decide differently.
func (c *contest) settings(ctx context.Context, pairs []analysis.PairOfRuns) error {
	n := 0
	for _, pair := range analysis.Pairs(len(c.entrants)) {
		f := &pairs[n]
		n++
		if err := ctx.Err(); err != nil {
			return err
		}
		a, b := c.planned[pair[0]], c.planned[pair[1]]
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
