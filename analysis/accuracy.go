package analysis

import (
	"context"
	"errors"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Accuracy is how often a classifier is right, and against float how often it answers differently.
type Accuracy struct {
	Mode    string  `json:"mode"`
	Backend string  `json:"backend"`
	Profile string  `json:"profile,omitempty"` // arithmetic of the integers
	N       int     `json:"n"`
	Top1    int     `json:"top1"` // counts
	Top5    int     `json:"top5"`
	Seconds float64 `json:"seconds"`
	// The rest compares with the float graph on the same samples; nil in float.
	*Change
	// Noise is the error of the outputs against float; nil in float.
	*Noise
	// Beside holds what the simulation answered on the same samples; nil where the mode is the simulation, or float.
	Beside *Beside `json:"sim,omitempty"`
	// Base holds what the integers answered under the profile they are compared with; nil where there is none.
	Base *Base `json:"base,omitempty"`
	// Placed says which steps of the integers ran where; nil where all ran by the processor's kernels.
	Placed *Placed `json:"placed,omitempty"`
	// Answers holds, in the order of the data, what was answered, and Losses what the judge says of the simulation; nil in float.
	Answers []Answer `json:"-"`
	Losses  Losses   `json:"-"`
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

// Change is what quantization did to the answers.
type Change struct {
	FloatTop1 int     `json:"float_top1"`
	FloatTop5 int     `json:"float_top5"`
	Flips     int     `json:"flips"` // answers that differ
	FlipRate  float64 `json:"flip_rate"`
	// Drop is the accuracy lost, in percentage points of top-1; DropError is its standard error from the pairs: with b samples right
	// only in float and c right only when quantized, sqrt(b + c - (b-c)^2/n) / n.
	Drop      float64 `json:"drop"`
	DropError float64 `json:"drop_error"`
}

// Noise is the error of the graph outputs on the samples evaluated: the plain NSR of the output where it is largest, and for the
// simulation of a graph with classes the centred NSR as well; see Judge.
type Noise struct {
	NSR
	Centred *NSR `json:"centred,omitempty"`
}

// Beside is what was answered otherwise on the same samples, next to the integers.
type Beside struct {
	Top1  int `json:"top1"`
	Top5  int `json:"top5"`
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
	Batch    int
	Threads  int            // samples at a time, or, with Integer, that share the work of an operator; 0 for one
	Memory   int64          // that the values of one run in float may take, as exec.Options has it
	Progress func(done int) // may be nil
}

// answer is the outcome on one sample.
type answer struct {
	sample string
	label  int
	// The five classes with the highest scores; quant is the simulation's or the integers', sim and base are nil where they did not
	// run.
	float, quant, sim, base []int
	// plain is the NSR by output of what quant answers, losses what the judge says of the simulation; nil where they did not run.
	plain, losses []float64
}

// Eval classifies every sample by the first output of g, flattened; scores that tie go to the lower class. Every sample needs a
// label within the classes.
func Eval(ctx context.Context, g *graph.Graph, samples exec.Iterator, cfg AccuracyConfig) (*Accuracy, error) {
	o, threads := exec.Options{Memory: cfg.Memory}, cfg.Threads
	if cfg.Integer != nil {
		o.Threads, threads = cfg.Threads, 1
	}
	session, err := exec.New(g, o)
	if err != nil {
		return nil, err
	}
	integer, base := one(cfg.Integer), one(cfg.Base)
	if cfg.Integer != nil && cfg.Batch > 1 {
		b := &batched{samples: samples, n: cfg.Batch, forwards: []Forward{cfg.Integer, cfg.Base}, outs: map[*exec.Sample][][]*tensor.Tensor{}}
		samples, integer, base = b, b.take(0), b.take(1)
	}
	judge := NewJudge(g)
	all := collector[answer]{stage: "eval", threads: threads, progress: cfg.Progress,
		worker: func() func(context.Context, int, *exec.Sample) (answer, error) {
			c := classifier{judge: judge, runner: session.NewRunner(), integer: integer, base: base}
			if cfg.Simulator != nil {
				c.hooks = cfg.Simulator.Hooks(nil)
			}
			return c.classify
		}}
	answers, err := all.run(ctx, samples)
	if err != nil {
		return nil, err
	}
	r := score(answers, cfg.Simulator != nil || cfg.Integer != nil)
	r.Noise = noise(answers, judge.Classes() && cfg.Integer == nil)
	if cfg.Integer != nil {
		r.Mode, r.Backend, r.Profile = "int8", cfg.Backend, cfg.Profile
		r.Beside = beside(answers, func(a answer) []int { return a.sim })
		if b := beside(answers, func(a answer) []int { return a.base }); b != nil {
			r.Base = &Base{Profile: cfg.BaseProfile, Beside: *b}
			r.Base.Lost, r.Base.LostError = lost(answers, func(a answer) []int { return a.base })
		}
	}
	return r, nil
}

type classifier struct {
	judge   *Judge
	runner  *exec.Runner
	hooks   *exec.Hooks
	integer func(context.Context, *exec.Sample) ([]*tensor.Tensor, error) // nil where integers do not run
	base    func(context.Context, *exec.Sample) ([]*tensor.Tensor, error)
}

func (c *classifier) classify(ctx context.Context, _ int, s *exec.Sample) (answer, error) {
	a := answer{sample: s.Name, label: s.Label}
	var float, quantized Verdict
	var hooks *exec.Hooks
	if c.hooks != nil {
		hooks = c.judge.Watch(nil, &float)
	}
	out, err := c.runner.Run(ctx, s.Feeds, hooks)
	if err != nil {
		return a, err
	}
	float.Outputs(out)
	if a.float, err = best(out, s.Label); err != nil {
		return a, err
	}
	if c.hooks != nil {
		if out, err = c.runner.Run(ctx, s.Feeds, c.judge.Watch(c.hooks, &quantized)); err != nil {
			return a, err
		}
		if a.quant, err = best(out, s.Label); err != nil {
			return a, err
		}
		quantized.Outputs(out)
		a.sim = a.quant
		if a.losses, err = c.judge.Losses(&quantized, &float); err != nil {
			return a, err
		}
		if a.plain, err = c.judge.Plain(&quantized, &float); err != nil {
			return a, err
		}
	}
	if c.integer != nil {
		if out, err = c.integer(ctx, s); err != nil {
			return a, err
		}
		if a.quant, err = best(out, s.Label); err != nil {
			return a, err
		}
		quantized.Outputs(out)
		if a.plain, err = c.judge.Plain(&quantized, &float); err != nil {
			return a, err
		}
	}
	if c.base != nil {
		if out, err = c.base(ctx, s); err != nil {
			return a, err
		}
		a.base, err = best(out, s.Label)
	}
	return a, err
}

// beside counts other answers on the same samples, nil if there are none.
func beside(answers []answer, other func(answer) []int) *Beside {
	var b Beside
	for _, a := range answers {
		top := other(a)
		if top == nil {
			return nil
		}
		top1, top5 := hit(top, a.label)
		b.Top1, b.Top5 = b.Top1+top1, b.Top5+top5
		if top[0] != a.quant[0] {
			b.Flips++
		}
	}
	return &b
}

// lost returns the percentage points of top-1 by which the answers are worse than others on the same samples, and the standard error
// of that: with b samples right only in the others and c right only here, sqrt(b + c - (b-c)^2/n) / n.
func lost(answers []answer, other func(answer) []int) (points, err float64) {
	n, b, c := float64(len(answers)), 0.0, 0.0
	for _, a := range answers {
		before, _ := hit(other(a), a.label)
		after, _ := hit(a.quant, a.label)
		switch {
		case before > after:
			b++
		case before < after:
			c++
		}
	}
	return 100 * (b - c) / n, 100 * math.Sqrt(b+c-(b-c)*(b-c)/n) / n
}

// noise puts the errors of all samples together, nil where nothing quantized ran.
func noise(answers []answer, centred bool) *Noise {
	var plain, losses Losses
	for _, a := range answers {
		if a.plain == nil {
			return nil
		}
		plain, losses = append(plain, a.plain), append(losses, a.losses)
	}
	n := &Noise{NSR: NewNSR(plain.Estimate())}
	if centred {
		c := NewNSR(losses.Estimate())
		n.Centred = &c
	}
	return n
}

// best returns the classes with the highest scores, at most five, the highest first.
func best(out []*tensor.Tensor, label int) ([]int, error) {
	if len(out) == 0 || out[0].DType != tensor.Float32 || out[0].Len() < 2 {
		return nil, errors.New("the first output is no row of class scores")
	}
	x := out[0].F32()
	if label < 0 || label >= len(x) {
		return nil, fmt.Errorf("label %d outside the %d classes of the first output; is --label-offset right?", label, len(x))
	}
	var top []int
	for c, v := range x {
		if v != v {
			return nil, errors.New("a score is NaN")
		}
		at := len(top)
		for at > 0 && v > x[top[at-1]] {
			at--
		}
		if at == 5 {
			continue
		}
		if len(top) < 5 {
			top = append(top, 0)
		}
		copy(top[at+1:], top[at:len(top)-1])
		top[at] = c
	}
	return top, nil
}

func score(answers []answer, quantized bool) *Accuracy {
	r := &Accuracy{Mode: "fp32", Backend: "cpu", N: len(answers)}
	var change Change
	for _, a := range answers {
		f1, f5 := hit(a.float, a.label)
		top := a.float
		if quantized {
			top = a.quant
		}
		r.Answers = append(r.Answers, Answer{a.sample, a.label, top[0]})
		change.FloatTop1 += f1
		change.FloatTop5 += f5
		if !quantized {
			continue
		}
		q1, q5 := hit(a.quant, a.label)
		r.Top1 += q1
		r.Top5 += q5
		if a.float[0] != a.quant[0] {
			change.Flips++
		}
	}
	if !quantized {
		r.Top1, r.Top5 = change.FloatTop1, change.FloatTop5
		return r
	}
	r.Mode = "sim"
	change.FlipRate = float64(change.Flips) / float64(r.N)
	change.Drop, change.DropError = lost(answers, func(a answer) []int { return a.float })
	r.Change = &change
	return r
}

// hit returns 1 for a right first answer and 1 for a right one among the five.
func hit(top []int, label int) (top1, top5 int) {
	for i, c := range top {
		if c == label {
			top5 = 1
			if i == 0 {
				top1 = 1
			}
		}
	}
	return top1, top5
}
