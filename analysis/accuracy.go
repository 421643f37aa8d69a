package analysis

import (
	"context"
	"math"
	"slices"

	"qwb/analysis/task"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/shard"
	"qwb/quantizer/sim"
)

// Accuracy is how good the answers of a network are, and against float how much they differ.
type Accuracy struct {
	Mode    string `json:"mode"`
	Backend string `json:"backend"`
	Profile string `json:"profile,omitempty"` // arithmetic of the integers
	N       int    `json:"n"`
	// Counts are those of a classifier; nil where no metric asks for classes, or there are no labels.
	*Counts
	Seconds float64 `json:"seconds"`
	// Scores are those of the metrics asked for, in their order.
	Scores []Score `json:"metrics,omitempty"`
	// The rest compares with the float graph on the same samples; nil in float, and for what is no classifier.
	*Change
	// Flipped also stands where there are no labels.
	*Flipped
	// Noise is the error of the outputs against float; nil in float, and where outputs have no fixed shape.
	*Noise
	// Beside holds what the simulation answered on the same samples; nil where the mode is the simulation, or float.
	Beside *Beside `json:"sim,omitempty"`
	// Base holds what the integers answered under the profile they are compared with; nil where there is none.
	Base *Base `json:"base,omitempty"`
	// Placed says which steps of the integers ran where; nil where all ran by the processor's kernels.
	Placed *Placed `json:"placed,omitempty"`
	// Answers holds, in the order of the data, what a classifier answered, and Losses what the judge says of the simulation, with parts of
	// outputs where no integers run; nil in float.
	Answers []Answer `json:"-"`
	Losses  Losses   `json:"-"`
}

// Counts are how many answers are right.
type Counts struct {
	Top1 int `json:"top1"`
	Top5 int `json:"top5"`
}

// Score is one metric. A score that is undefined is null: a class without samples, for instance.
type Score struct {
	Name string `json:"name"`
	// Against says what is taken for right: labels, or float, where scores are agreement with the float network.
	Against string   `json:"against"`
	Percent bool     `json:"percent"` // drops are in percentage points
	Value   *float64 `json:"value"`   // in the mode evaluated
	// Of a quantized mode: the float network's score, how much worse Value is, with its standard error from the pairs (null for fewer than
	// two samples), and the simulation's score beside the integers'.
	Float     *float64 `json:"float,omitempty"`
	Drop      *float64 `json:"drop,omitempty"`
	DropError *float64 `json:"drop_error,omitempty"`
	Sim       *float64 `json:"sim,omitempty"`
}

// Answer is the class with the highest score for one sample, in the mode evaluated.
type Answer struct {
	Sample       string
	Label, Class int
}

// Shift returns the number that, added to every label, would make far more answers right: what is missing in the offset between labels
// and classes. ok is false where no such number is clear: where more than a few answers are right as it is, less than a quarter would be
// right with it, or fewer than five different labels are there to tell by.
func (r *Accuracy) Shift() (by, right int, ok bool) {
	counts, labels := map[int]int{}, map[int]bool{}
	for _, a := range r.Answers {
		counts[a.Class-a.Label]++
		labels[a.Label] = true
	}
	for d, n := range counts {
		if n > right || n == right && d < by {
			by, right = d, n
		}
	}
	return by, right, by != 0 && len(labels) >= 5 && 4*right >= len(r.Answers) && right >= 4*max(counts[0], 1)
}

// Flipped are the answers of a classifier that quantization changed.
type Flipped struct {
	Flips    int     `json:"flips"`
	FlipRate float64 `json:"flip_rate"`
}

// Change is what quantization did to the counts.
type Change struct {
	FloatTop1 int `json:"float_top1"`
	FloatTop5 int `json:"float_top5"`
	// Drop is the accuracy lost, in percentage points of top-1; DropError is its standard error from the pairs: with b samples right
	// only in float and c right only when quantized, sqrt((b + c - (b-c)^2/n) / (n (n-1))).
	Drop      float64 `json:"drop"`
	DropError float64 `json:"drop_error"`
}

// Noise is the error of the graph outputs on the samples evaluated: the plain NSR of the output where it is largest, and of a graph with
// classes the centred NSR as well, see Judge: always that of the simulation, as integers do not show the scores before a Softmax.
type Noise struct {
	NSR
	// Mismatches says that no output is float: the NSR is the share of elements that differ.
	Mismatches bool `json:"mismatches,omitempty"`
	// At are the tensors that are compared where some stand for outputs whose size depends on the numbers: in the simulation, whatever the
	// mode.
	At      []string `json:"at,omitempty"`
	Centred *NSR     `json:"centred,omitempty"`
	// Slices are the parts of the outputs, by themselves.
	Slices []SliceError `json:"slices,omitempty"`
	Steps  []Steps      `json:"steps,omitempty"` // where samples are steps of sequences
	// Headlines say what counts more than the figures, see the function; of classes they are those of the simulation.
	Headlines []string `json:"headlines,omitempty"`
}

// Beside is what was answered otherwise on the same samples, next to the integers.
type Beside struct {
	Counts
	Flips int `json:"flips"` // answers of the integers that differ from these
}

// Base is the integer program under another profile, usually the platform's own.
type Base struct {
	Profile string `json:"profile"`
	Beside
	// Lost is the accuracy lost against it, in percentage points of top-1, LostError its standard error, as Change has them.
	Lost      float64 `json:"lost"`
	LostError float64 `json:"lost_error"`
}

// Forward runs a model once: inputs by name, outputs in the order of the graph's.
type Forward func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error)

// AccuracyConfig says how Eval works. The zero value evaluates the float graph.
type AccuracyConfig struct {
	Simulator *sim.Simulator // nil: float only
	// Integer runs the integer program, whose accuracy is wanted then; the simulation stands beside it. It is called for one sample
	// at a time.
	Integer Forward
	Backend string // what runs the integers
	Profile string // their arithmetic
	// Base runs the integer program under BaseProfile, to say what Profile costs; nil for no comparison.
	Base        Forward
	BaseProfile string
	// Batch is how many samples Integer and Base take at a time, 0 for one: their feeds are joined along axis 0, and outputs cut.
	Batch int
	// Metrics are what is scored, nil for top-1 and top-5 of samples with labels. Their names differ.
	Metrics  []task.Scoring
	Parts    []Slice        // that outputs are judged by beside the whole, as NewJudge takes them
	Threads  int            // samples at a time, or, with Integer, that share the work of an operator; 0 for one
	Memory   int64          // that the values of one run in float may take, as exec.Options has it
	Progress func(done int) // may be nil
	Deal     shard.Deal     // of a run in parts, what of the samples they are
}

// What runs for a sample. quant is the simulation's answer or that of the integers.
const (
	float = iota
	quant
	simulated
	base
	runs
)

// answer is the outcome on one sample.
type answer struct {
	sample string
	label  int
	runs   [runs][]task.Record // by metric; nil where that did not run
	// plain is the NSR by output of what quant answers, losses what the judge says of the simulation; nil where they did not run.
	plain, losses []float64
	place         placeOf
	changes       []classChange // of the simulation, by output
	sums          []sum         // of what plain is of, until they are added to those of all samples
}

// classes are the metrics of an evaluation that names none.
func classes() []task.Scoring {
	m := task.Metrics[0]
	s, _ := m.On(task.Labels{}) // classes stand in the samples
	return []task.Scoring{s}
}

// Eval scores every sample by the metrics. Every sample needs a label, unless they compare with the float graph.
func Eval(ctx context.Context, g *graph.Graph, samples exec.Iterator, cfg AccuracyConfig) (*Accuracy, error) {
	o, threads := exec.Options{Memory: cfg.Memory}, cfg.Threads
	if cfg.Integer != nil {
		o.Threads, threads = cfg.Threads, 1
	}
	judge := NewJudge(g, cfg.Parts...)
	session, err := exec.New(judge.Runs(), o)
	if err != nil {
		return nil, err
	}
	integer, base := one(cfg.Integer), one(cfg.Base)
	if cfg.Integer != nil && cfg.Batch > 1 {
		b := &batched{samples: samples, n: cfg.Batch, forwards: []Forward{cfg.Integer, cfg.Base}, outs: map[*exec.Sample][][]*tensor.Tensor{}}
		samples, integer, base = b, b.take(0), b.take(1)
	}
	metrics := cfg.Metrics
	if metrics == nil {
		metrics = classes()
	}
	all, shown := &tally{}, judge.Runs()
	run := collector[answer]{stage: "eval", threads: threads, progress: cfg.Progress, graph: g, deal: cfg.Deal, kinds: task.Records(),
		then: func(i int, a *answer) {
			if a.sums != nil {
				all.add(i, a.sums)
				a.sums = nil
			}
		},
		worker: func() func(context.Context, int, *exec.Sample) (answer, error) {
			r := rater{metrics: metrics, judge: judge, runner: session.NewRunner(), watched: shown, g: g, integer: integer, base: base}
			if cfg.Simulator != nil {
				r.hooks = cfg.Simulator.Hooks(nil)
			}
			return r.rate
		}}
	answers, err := run.run(ctx, samples)
	if err != nil {
		return nil, err
	}
	quantized := cfg.Simulator != nil || cfg.Integer != nil
	places := placesOf(answers, func(a answer) placeOf { return a.place })
	all.blocks = blocksIn(places)
	r := score(metrics, answers, quantized, all.blocks)
	if cfg.Metrics != nil {
		r.Scores = scored(metrics, answers, quantized, cfg.Integer != nil, all.blocks)
	}
	if r.Noise = noise(answers, judge, all, judge.Classes() && cfg.Simulator != nil); r.Noise != nil {
		r.Slices, r.Steps = judge.list(all), stepsIn(judge, answers, places)
		weights := judge.weigh(all)
		r.Headlines = judge.headlines(changesOf(answers), r.Slices, weights)
		if cfg.Integer == nil {
			for i := range r.Losses {
				r.Losses[i] = weights.row(i, r.Losses[i], func(k int) float64 { return all.noise[i][k] })
			}
		}
	}
	if cfg.Integer != nil {
		r.Mode, r.Backend, r.Profile = "int8", cfg.Backend, cfg.Profile
		r.compareRuns(metrics, answers, cfg.BaseProfile, all.blocks)
	}
	return r, nil
}

// stepsIn are the curves of the plain NSR of what was answered.
func stepsIn(j *Judge, answers []answer, places []placeOf) []Steps {
	names := make([]string, len(j.logits))
	for i, v := range j.g.Outputs[:len(names)] {
		names[i] = j.g.Value(v).Name
	}
	return stepsOf(names, places, func(i int) []float64 { return answers[i].plain })
}

// ranked are the records of the first metric that ranks classes; nil where none does, or where nothing ran.
func ranked(metrics []task.Scoring, answers []answer, run int) (out []task.Ranked, labelled bool) {
	for k, m := range metrics {
		for _, a := range answers {
			if a.runs[run] != nil {
				if r, ok := a.runs[run][k].(task.Ranked); ok {
					out = append(out, r)
				}
			}
		}
		if out != nil {
			return out, !m.Float
		}
	}
	return nil, false
}

// rater scores one sample at a time.
type rater struct {
	metrics    []task.Scoring
	judge      *Judge
	runner     *exec.Runner
	hooks      *exec.Hooks
	integer    func(context.Context, *exec.Sample) ([]*tensor.Tensor, error) // nil where integers do not run
	base       func(context.Context, *exec.Sample) ([]*tensor.Tensor, error)
	g, watched *graph.Graph // whose outputs integers have, and those of the runner
	rolling    [runs]exec.Rolling
}

// answers runs one of the integer programs, with its own states.
func (r *rater) answers(ctx context.Context, s *exec.Sample, run int, f func(context.Context, *exec.Sample) ([]*tensor.Tensor, error)) (
	[]*tensor.Tensor, error) {
	if s.Sequence == nil {
		return f(ctx, s)
	}
	own := *s
	own.Feeds = r.rolling[run].Feeds(s)
	out, err := f(ctx, &own)
	if err == nil {
		err = r.rolling[run].Keep(r.g, s, out)
	}
	return out, err
}

func (r *rater) rate(ctx context.Context, _ int, s *exec.Sample) (answer, error) {
	a := answer{sample: s.Name, label: s.Label, place: placeIn(s)}
	full, quantized := r.judge.verdict(), r.judge.verdict()
	var hooks *exec.Hooks
	if r.hooks != nil {
		hooks = r.judge.Watch(nil, full)
	}
	out, err := r.runner.Run(ctx, s.Feeds, hooks)
	if err != nil {
		return a, err
	}
	full.Outputs(out)
	r.judge.Hide(full, s)
	known := task.Sample{Name: s.Name, Label: s.Label, Float: full.own}
	if a.runs[float], err = records(r.metrics, known, full.own); err != nil {
		return a, err
	}
	if r.hooks != nil {
		out, err = r.runner.Run(ctx, r.rolling[simulated].Feeds(s), r.judge.Watch(r.hooks, quantized))
		if err == nil {
			err = r.rolling[simulated].Keep(r.watched, s, out)
		}
		if err != nil {
			return a, err
		}
		quantized.Outputs(out)
		r.judge.Hide(quantized, s)
		if sameShapes(quantized.outputs, full.outputs) {
			if a.losses, err = r.judge.Losses(quantized, full); err != nil {
				return a, err
			}
			if a.changes, err = r.judge.changes(quantized, full); err != nil {
				return a, err
			}
		}
		if r.integer == nil || r.judge.own != nil { // integers show their outputs only
			if err := r.whole(&a, quantized, full); err != nil {
				return a, err
			}
		}
		// Metrics come behind the judge, which says of infinite numbers what they are.
		if a.runs[simulated], err = records(r.metrics, known, quantized.own); err != nil {
			return a, err
		}
		a.runs[quant] = a.runs[simulated]
	}
	if r.integer != nil {
		if out, err = r.answers(ctx, s, quant, r.integer); err != nil {
			return a, err
		}
		quantized.Outputs(out)
		r.judge.Hide(quantized, s)
		if r.judge.own == nil {
			if err := r.whole(&a, quantized, full); err != nil {
				return a, err
			}
		}
		if a.runs[quant], err = records(r.metrics, known, quantized.own); err != nil {
			return a, err
		}
	}
	if r.base != nil {
		if out, err = r.answers(ctx, s, base, r.base); err != nil {
			return a, err
		}
		quantized.Outputs(out)
		r.judge.Hide(quantized, s)
		a.runs[base], err = records(r.metrics, known, quantized.own)
	}
	return a, err
}

// whole measures the outputs, of which those of a detector may have other shapes, and their parts.
func (r *rater) whole(a *answer, q, f *Verdict) error {
	if !sameShapes(q.outputs, f.outputs) {
		return nil
	}
	var err error
	if a.plain, err = r.judge.Plain(q, f); err != nil {
		return err
	}
	if a.sums, err = r.judge.sums(q.outputs, f.outputs, true); err == nil {
		r.judge.reaches(a.sums, f)
	}
	return err
}

// records are what each metric keeps of the outputs.
func records(metrics []task.Scoring, s task.Sample, outputs []*tensor.Tensor) ([]task.Record, error) {
	all := make([]task.Record, len(metrics))
	for k, m := range metrics {
		var err error
		if all[k], err = m.Record(s, outputs); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sameShapes reports whether the outputs of two runs have the same shapes. Those of a detector may not.
func sameShapes(a, b []*tensor.Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y *tensor.Tensor) bool { return x.DType == y.DType && slices.Equal(x.Shape, y.Shape) })
}

// compareRuns says how the integers differ from the simulation, and from the program under another profile.
func (r *Accuracy) compareRuns(metrics []task.Scoring, answers []answer, profile string, b Blocks) {
	own, labelled := ranked(metrics, answers, quant)
	if !labelled {
		return
	}
	beside := func(run int) (_ Beside, all []task.Ranked) {
		all, _ = ranked(metrics, answers, run)
		return Beside{count(all), flipped(own, all)}, all
	}
	if x, all := beside(simulated); all != nil {
		r.Beside = &x
	}
	if x, all := beside(base); all != nil {
		r.Base = &Base{Profile: profile, Beside: x}
		r.Base.Lost, r.Base.LostError = lost(all, own, b)
	}
}

func count(all []task.Ranked) (c Counts) {
	for _, r := range all {
		if r.Hit(1) {
			c.Top1++
		}
		if r.Hit(5) {
			c.Top5++
		}
	}
	return c
}

// flipped counts the answers that differ.
func flipped(a, b []task.Ranked) (n int) {
	for i := range b {
		if a[i].Class != b[i].Class {
			n++
		}
	}
	return n
}

// lost returns the percentage points of top-1 by which after is worse than before on the same samples, and the standard error of that:
// with b samples right only before and c right only after, sqrt((b + c - (b-c)^2/n) / (n (n-1))): that of their mean. of are the blocks of
// samples, where that is the error of theirs.
func lost(before, after []task.Ranked, of Blocks) (points, err float64) {
	n, b, c := float64(len(after)), 0.0, 0.0
	each := make([]float64, len(after))
	for i := range after {
		switch x, y := before[i].Hit(1), after[i].Hit(1); {
		case x && !y:
			b++
			each[i] = 1
		case y && !x:
			c++
			each[i] = -1
		}
	}
	if err = math.Sqrt((b + c - (b-c)*(b-c)/n) / (n * max(n-1, 1))); of != nil {
		err = of.Estimate(each).Error
	}
	return 100 * (b - c) / n, 100 * err
}

func changesOf(answers []answer) (list [][]classChange) {
	for _, a := range answers {
		list = append(list, a.changes)
	}
	return list
}

// noise puts the errors of all samples together, nil where nothing quantized ran. Outputs that do not count (see Judge.judged) have none,
// and samples that are empty are left out.
func noise(answers []answer, judge *Judge, all *tally, centred bool) *Noise {
	var plain, losses Losses
	for _, a := range answers {
		if a.plain == nil || centred && a.losses == nil {
			return nil
		}
		plain, losses = append(plain, a.plain), append(losses, a.losses[:min(len(a.plain), len(a.losses))])
	}
	weights := judge.weigh(all)
	plain, losses = weights.outputs(plain), weights.outputs(losses)
	n := &Noise{NSR: NewNSR(plain.EstimateBy(all.blocks)), Mismatches: judge.Mismatches(), At: judge.inPlace()}
	if centred {
		c := NewNSR(losses.EstimateBy(all.blocks))
		n.Centred = &c
	}
	return n
}

// score fills in what a classifier's answers say.
func score(metrics []task.Scoring, answers []answer, quantized bool, b Blocks) *Accuracy {
	r := &Accuracy{Mode: "fp32", Backend: "cpu", N: len(answers)}
	for _, a := range answers {
		if a.losses != nil {
			r.Losses = append(r.Losses, a.losses)
		}
	}
	before, labelled := ranked(metrics, answers, float)
	after := before
	if quantized {
		r.Mode = "sim"
		after, _ = ranked(metrics, answers, quant)
	}
	if before == nil {
		return r
	}
	for i, a := range answers {
		r.Answers = append(r.Answers, Answer{a.sample, a.label, after[i].Class})
	}
	if labelled {
		c := count(after)
		r.Counts = &c
	}
	if quantized {
		n := flipped(before, after)
		r.Flipped = &Flipped{n, float64(n) / float64(r.N)}
	}
	if quantized && labelled {
		c := count(before)
		r.Change = &Change{FloatTop1: c.Top1, FloatTop5: c.Top5}
		r.Change.Drop, r.Change.DropError = lost(before, after, b)
	}
	return r
}

// scored scores the answers by every metric.
func scored(metrics []task.Scoring, answers []answer, quantized, integer bool, b Blocks) []Score {
	var out []Score
	for k, m := range metrics {
		of := func(run int) []task.Record {
			all := make([]task.Record, len(answers))
			for i, a := range answers {
				all[i] = a.runs[run][k]
			}
			return all
		}
		s := Score{Name: m.Name, Against: "labels", Percent: m.Percent}
		if m.Float {
			s.Against = "float"
		}
		before := of(float)
		s.Value = figure(m.Score(before))
		if quantized {
			after := of(quant)
			drop := b.Estimate(task.Difference(m, before, after, m.Metric))
			s.Float, s.Value, s.Drop, s.DropError = s.Value, figure(m.Score(after)), figure(drop.Mean), figure(drop.Error)
			if integer && answers[0].runs[simulated] != nil {
				s.Sim = figure(m.Score(of(simulated)))
			}
		}
		out = append(out, s)
	}
	return out
}
