package analysis

import (
	"context"
	"errors"
	"fmt"

	"qwb/analysis/task"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Entrant is one of the runs that CompareRuns compares.
type Entrant struct {
	Name string
	// Graph is executed, under Simulator where there is one. It is nil where Forward answers.
	Graph     *graph.Graph
	Simulator *sim.Simulator
	// Forward answers in place of a graph: an integer program, or outputs that were recorded. They have the order of Float's outputs. i is the
	// place of the sample in the data. With Graph and Simulator beside it the simulation stands for it where an output's size depends on the
	// numbers: it is judged in front of these outputs, and Forward's own outputs have the classes and scores.
	Forward func(ctx context.Context, i int, s *exec.Sample) ([]*tensor.Tensor, error)
	// Float is the float network that the error is measured against. Candidates of one network have the same graph here, which then runs once.
	Float *graph.Graph
}

// RunsConfig says how CompareRuns works.
type RunsConfig struct {
	// Metric scores the answers, with a Scorer that it opened; nil: only errors are compared.
	Metric *task.Metric
	Scorer task.Scorer
	// Parts are what outputs are judged by beside the whole, as NewJudge takes them.
	Parts []Slice
	// Output is the one that classes are read from.
	Output int
	// Layers is on how many samples the error at every operator is measured, for entrants with a Simulator.
	Layers int
	// Serial says that a Forward takes one sample at a time.
	Serial   bool
	Threads  int            // samples at a time, or with Serial, that share the work of an operator; 0 for one
	Memory   int64          // that the values of one run in float may take, as exec.Options has it
	Progress func(done int) // may be nil
}

// Answered is what CompareRuns keeps of an entrant, or of float, by sample.
type Answered struct {
	Losses    []float64     // the largest error over the outputs against float, or that of their worst part; nil for float itself
	Worst     string        // the part with the largest error on average; empty where that is of a whole output
	Slices    []SliceError  // of all outputs; nil for float itself, and where outputs have no parts
	Headlines []string      // see the function; nil for float itself
	Classes   []int         // with the highest score; -1 where the first output is no row of class scores
	Records   []task.Record // of the metric; nil without one
	Layers    []LayerLosses // in graph order; nil where they were not measured
}

// LayerLosses is the error accumulated up to one operator, by sample.
type LayerLosses struct {
	Node, Op string
	NSR      []float64
}

// Runs is what entrants answered on the same samples.
type Runs struct {
	Names   []string
	Samples []SampleOf
	Blocks  Blocks // of the samples
	// Centred says that the errors are centred NSRs where outputs have classes (see Judge). Where an entrant shows its outputs only, all
	// errors are plain.
	Centred bool
	// Mismatches says that no output is float: errors are shares of elements that differ.
	Mismatches bool
	At         []string    // as Comparison has it
	Float      []*Answered // what each is measured against; one for all entrants of one network
	All        []*Answered
	// Apart is, for the pair i < j, how far the outputs of j are from those of i: the plain NSR by sample. Its index is that of Pairs.
	Apart [][]float64
}

// SampleOf identifies a sample.
type SampleOf struct {
	Name  string
	Hash  [32]byte
	Label int
}

// Pairs lists the pairs i < j of n entrants.
func Pairs(n int) (list [][2]int) {
	for i := range n {
		for j := i + 1; j < n; j++ {
			list = append(list, [2]int{i, j})
		}
	}
	return list
}

// CompareRuns runs every sample through all entrants, and through their float networks. Outputs that are not finite, and those of an
// entrant that are not of the shape of float's, are errors that name the entrant.
func CompareRuns(ctx context.Context, samples exec.Iterator, entrants []Entrant, cfg RunsConfig) (*Runs, error) {
	c := &comparer{entrants: entrants, cfg: cfg, centred: true, networks: map[*graph.Graph]*network{}, tallies: make([]tally, len(entrants))}
	for i := range entrants {
		k := &entrants[i]
		c.centred = c.centred && k.Forward == nil
		for _, g := range []*graph.Graph{k.Float, k.Graph} {
			if err := c.open(g); err != nil {
				return nil, fmt.Errorf("%s: %w", k.Name, err)
			}
		}
	}
	if err := c.findLayers(); err != nil {
		return nil, err
	}
	threads := cfg.Threads
	if cfg.Serial {
		threads = 1
	}
	all := collector[*compared]{stage: "compare", threads: threads, progress: cfg.Progress, graph: entrants[0].Float,
		worker: func() func(context.Context, int, *exec.Sample) (*compared, error) {
			return c.newWorker().sample
		}}
	results, err := all.run(ctx, samples)
	if err != nil {
		return nil, err
	}
	return c.collect(results), nil
}

// network is a graph that is executed.
type network struct {
	session *exec.Session
	judge   *Judge
	classes bool // they can be read from the output that says them
}

type comparer struct {
	entrants []Entrant
	cfg      RunsConfig
	centred  bool
	networks map[*graph.Graph]*network
	groups   [][]group // by entrant: where the error at operators is measured
	tallies  []tally   // by entrant
}

func (c *comparer) open(g *graph.Graph) error {
	if g == nil || c.networks[g] != nil {
		return nil
	}
	o := exec.Options{Memory: c.cfg.Memory}
	if c.cfg.Serial {
		o.Threads = c.cfg.Threads
	}
	judge := NewJudge(g, c.cfg.Parts...)
	s, err := exec.New(judge.Runs(), o)
	if err != nil {
		return err
	}
	c.networks[g] = &network{s, judge, c.cfg.Output < len(g.Outputs) && !Counted(g, c.cfg.Output)}
	return nil
}

// findLayers lists the operators at which errors are measured.
func (c *comparer) findLayers() error {
	c.groups = make([][]group, len(c.entrants))
	for i := range c.entrants {
		k := &c.entrants[i]
		if c.cfg.Layers == 0 || k.Simulator == nil || k.Forward != nil {
			continue
		}
		var err error
		if c.groups[i], err = groupsOf(k.Graph, k.Simulator); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return nil
}

// compared is what one sample gave.
type compared struct {
	sample SampleOf
	place  placeOf
	float  map[*graph.Graph]*outcome
	all    []*outcome
	apart  []float64
}

type outcome struct {
	losses  []float64 // by output
	changes []classChange
	class   int
	record  task.Record
	layers  []float64 // by group; nil where they were not measured
	seen    *Verdict
}

// comparing is what one goroutine uses.
type comparing struct {
	*comparer
	runners map[*graph.Graph]*exec.Runner
	hooks   []*exec.Hooks // by entrant
	layers  []*exec.Hooks // that show operators' outputs before their readers quantize them
	rolling []exec.Rolling
}

func (c *comparer) newWorker() *comparing {
	w := &comparing{comparer: c, runners: map[*graph.Graph]*exec.Runner{}, hooks: make([]*exec.Hooks, len(c.entrants)),
		layers: make([]*exec.Hooks, len(c.entrants)), rolling: make([]exec.Rolling, len(c.entrants))}
	for g, n := range c.networks {
		w.runners[g] = n.session.NewRunner()
	}
	for i := range c.entrants {
		if s := c.entrants[i].Simulator; s != nil {
			w.hooks[i], w.layers[i] = s.Hooks(nil), s.NewHooks(sim.View{Islands: true})
		}
	}
	return w
}

func (w *comparing) sample(ctx context.Context, i int, s *exec.Sample) (*compared, error) {
	r := &compared{sample: SampleOf{s.Name, s.Hash, s.Label}, place: placeIn(s), float: map[*graph.Graph]*outcome{}}
	for k := range w.entrants {
		c := &w.entrants[k]
		f := r.float[c.Float]
		if f == nil {
			v, err := w.run(ctx, c.Float, s, nil)
			if err == nil {
				f, err = w.outcome(s, v, v, w.networks[c.Float].classes)
			}
			if err != nil {
				return nil, fmt.Errorf("float: %w", err)
			}
			r.float[c.Float] = f
		}
		own := *s
		own.Feeds = w.rolling[k].Feeds(s)
		o, err := w.answer(ctx, i, &own, k, f)
		if err == nil {
			err = w.rolling[k].Keep(c.Float, s, o.seen.own)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.all = append(r.all, o)
	}
	for _, p := range Pairs(len(r.all)) {
		a, b := r.all[p[0]].seen, r.all[p[1]].seen
		var losses []float64
		err := sameOutputs(b, a)
		if err == nil {
			if losses, err = w.judgeOf(p[0]).Plain(b, a); errors.Is(err, ErrNotFinite) { // masked in one of them only
				losses, err = w.judgeOf(p[0]).Plain(a, b)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", w.entrants[p[0]].Name, w.entrants[p[1]].Name, err)
		}
		r.apart = append(r.apart, Losses{losses}.PerSample()[0])
	}
	for _, o := range r.all { // tensors are large
		o.seen = nil
	}
	for _, o := range r.float {
		o.seen = nil
	}
	return r, nil
}

// judgeOf is what knows the outputs of an entrant.
func (c *comparer) judgeOf(k int) *Judge {
	e := &c.entrants[k]
	if e.Graph != nil {
		return c.networks[e.Graph].judge
	}
	return c.networks[e.Float].judge
}

func (w *comparing) run(ctx context.Context, g *graph.Graph, s *exec.Sample, hooks *exec.Hooks) (*Verdict, error) {
	v := &Verdict{}
	out, err := w.runners[g].Run(ctx, s.Feeds, w.networks[g].judge.Watch(hooks, v))
	if err != nil {
		return nil, err
	}
	kept := make([]*tensor.Tensor, len(out)) // the runner's memory is used again
	for i, t := range out {
		kept[i] = t.Clone()
	}
	v.Outputs(kept)
	w.networks[g].judge.Hide(v, s)
	return v, nil
}

// answer runs one entrant.
func (w *comparing) answer(ctx context.Context, i int, s *exec.Sample, k int, f *outcome) (*outcome, error) {
	c := &w.entrants[k]
	if c.Forward != nil {
		judge := w.judgeOf(k)
		instead := judge.own != nil && c.Simulator != nil
		if err := judge.showsAll(); err != nil && !instead {
			return nil, err
		}
		out, err := c.Forward(ctx, i, s)
		if err != nil {
			return nil, err
		}
		v := judge.verdict()
		v.Outputs(out)
		judge.Hide(v, s)
		if instead {
			own := v.own
			if v, err = w.run(ctx, c.Graph, s, w.hooks[k]); err != nil {
				return nil, err
			}
			v.own = own
		}
		o, err := w.outcome(s, v, f.seen, w.networks[c.Float].classes)
		if err == nil {
			err = w.measure(i, k, o, f)
		}
		return o, err
	}
	if c.Graph == c.Float && c.Simulator == nil {
		o := *f
		return &o, w.measure(i, k, &o, f)
	}
	hooks := w.hooks[k]
	var layers []float64
	if i < w.cfg.Layers && len(w.groups[k]) > 0 {
		var err error
		if hooks, layers, err = w.watchLayers(ctx, k, s); err != nil {
			return nil, err
		}
	}
	v, err := w.run(ctx, c.Graph, s, hooks)
	if err != nil {
		return nil, err
	}
	o, err := w.outcome(s, v, f.seen, w.networks[c.Float].classes)
	if err == nil {
		o.layers = layers
		err = w.measure(i, k, o, f)
	}
	return o, err
}

// watchLayers runs the entrant's graph in float and returns hooks that fill layers with what the simulation does at each operator.
func (w *comparing) watchLayers(ctx context.Context, k int, s *exec.Sample) (*exec.Hooks, []float64, error) {
	g, groups := w.entrants[k].Graph, w.groups[k]
	keep, at := make([]bool, g.NumValues()), map[graph.ValueID][]int{}
	for n, grp := range groups {
		keep[grp.output] = true
		at[grp.output] = append(at[grp.output], n)
	}
	kept := newKeeper(g, keep)
	kept.begin(s.Feeds)
	if _, err := w.runners[g].Run(ctx, s.Feeds, &exec.Hooks{Output: kept.see, Wants: kept.wants}); err != nil {
		return nil, nil, err
	}
	layers, padded := make([]float64, len(groups)), w.networks[g].judge.padding.of(g, s)
	return looking(w.layers[k], kept.wants, func(n *graph.Node, i int, t *tensor.Tensor) error {
		v := n.Outputs[i]
		e, err := inside(unpadded(padded, v, t), unpadded(padded, v, kept.values[v]))
		for _, at := range at[n.Outputs[i]] {
			layers[at] = e.NSR
		}
		return err
	}), layers, nil
}

// outcome reduces what a run gave to what is kept; f is the float run.
func (w *comparing) outcome(s *exec.Sample, v, f *Verdict, classes bool) (*outcome, error) {
	o := &outcome{class: -1, seen: v}
	if classes {
		o.class = classOf(v.own[w.cfg.Output:])
	}
	if w.cfg.Metric == nil {
		return o, nil
	}
	var err error
	o.record, err = w.cfg.Scorer.Record(task.Sample{Name: s.Name, Label: s.Label, Float: f.own}, v.own)
	return o, err
}

func (w *comparing) measure(i, k int, o, f *outcome) error {
	judge := w.judgeOf(k)
	if err := sameOutputs(o.seen, f.seen); err != nil {
		return err
	}
	look := judge.Plain
	if w.centred {
		look = judge.Losses
	}
	var err error
	if o.losses, err = look(o.seen, f.seen); err != nil {
		return err
	}
	if o.changes, err = judge.changes(o.seen, f.seen); err != nil {
		return err
	}
	sums, err := judge.sums(o.seen.outputs, f.seen.outputs, true)
	if err == nil {
		judge.reaches(sums, f.seen)
		w.tallies[k].add(i, sums)
	}
	return err
}

func sameOutputs(q, f *Verdict) error {
	if len(q.outputs) != len(f.outputs) {
		return fmt.Errorf("%d outputs cannot be compared with %d", len(q.outputs), len(f.outputs))
	}
	return nil
}

// classOf is the class with the highest score, the lowest of those that tie, or the one whole number that the output is; -1 where the first
// output is neither.
func classOf(out []*tensor.Tensor) int {
	if class, ok := task.Class(out); ok {
		return class
	}
	if len(out) == 0 || out[0].DType != tensor.Float32 || out[0].Len() < 2 {
		return -1
	}
	longest := 0
	for _, n := range out[0].Shape {
		longest = max(longest, n)
	}
	if longest != out[0].Len() {
		return -1
	}
	best := 0
	x := out[0].F32()
	for c, v := range x {
		if v > x[best] {
			best = c
		}
	}
	return best
}

// collect turns what the samples gave into what the entrants gave.
func (c *comparer) collect(results []*compared) *Runs {
	r := &Runs{Centred: c.centred, Mismatches: c.networks[c.entrants[0].Float].judge.Mismatches(),
		At: c.networks[c.entrants[0].Float].judge.inPlace(), Apart: make([][]float64, len(Pairs(len(c.entrants))))}
	places := placesOf(results, func(s *compared) placeOf { return s.place })
	r.Blocks = blocksIn(places)
	floats := map[*graph.Graph]*Answered{}
	for k := range c.entrants {
		f := floats[c.entrants[k].Float]
		if f == nil {
			f = &Answered{}
			floats[c.entrants[k].Float] = f
			for _, s := range results {
				f.add(s.float[c.entrants[k].Float])
			}
		}
		a := &Answered{}
		for _, grp := range c.groups[k] {
			n := c.entrants[k].Graph.Node(grp.node)
			a.Layers = append(a.Layers, LayerLosses{Node: n.Name, Op: n.Op})
		}
		judge, t := c.judgeOf(k), &c.tallies[k]
		t.blocks = r.Blocks
		weights := judge.weigh(t)
		var losses Losses
		for n, s := range results {
			losses = append(losses, weights.row(n, s.all[k].losses, func(i int) float64 { return t.noise[n][i] }))
		}
		a.Losses, a.Worst = judge.bySample(losses, weights)
		a.Slices = judge.list(t)
		var changes [][]classChange
		for _, s := range results {
			changes = append(changes, s.all[k].changes)
		}
		a.Headlines = judge.headlines(changes, a.Slices, weights)
		for _, s := range results {
			o := s.all[k]
			a.add(o)
			for i, x := range o.layers {
				a.Layers[i].NSR = append(a.Layers[i].NSR, x)
			}
		}
		r.Names, r.Float, r.All = append(r.Names, c.entrants[k].Name), append(r.Float, f), append(r.All, a)
	}
	for _, s := range results {
		r.Samples = append(r.Samples, s.sample)
		for p, x := range s.apart {
			r.Apart[p] = append(r.Apart[p], x)
		}
	}
	return r
}

func (a *Answered) add(o *outcome) {
	a.Classes = append(a.Classes, o.class)
	if o.record != nil {
		a.Records = append(a.Records, o.record)
	}
}
