package analysis

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"qwb/analysis/task"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/quantizer/sim"
)

// Evaluator measures many quantizations of one graph on the same samples: the float outputs are computed once and kept.
type Evaluator struct {
	g       *graph.Graph
	given   *graph.Graph // whose outputs others answer with
	session *exec.Session
	samples func() exec.Iterator
	judge   *Judge
	float   []*Verdict
	first   int           // the place of float[0] among all samples
	weights weighed       // what of every sample's noise counts
	seen    []task.Sample // what the samples are called, and their labels
	threads int
	ends    int           // how many samples are the last steps of sequences
	blocks  Blocks        // of the samples
	rolling *exec.Rolling // the states of a run that goes on; nil: every run begins anew
}

// NewEvaluator runs all samples in float, threads at a time. samples gives the data set from its beginning each time it is
// called. A data set of at most memory bytes (0: 2 GiB) is kept; a larger one is read again for every quantization. An empty one is
// an error. parts are what outputs are judged by beside the whole, as NewJudge takes them.
func NewEvaluator(ctx context.Context, g *graph.Graph, samples func() exec.Iterator, threads int, memory int64,
	parts ...Slice) (*Evaluator, error) {
	judge := NewJudge(g, parts...)
	session, err := exec.New(judge.Runs(), exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	if memory == 0 {
		memory = defaultMemory
	}
	rec := &recorder{Iterator: samples(), room: memory}
	e := &Evaluator{g: judge.g, given: g, session: session, samples: func() exec.Iterator { return rec }, threads: threads, judge: judge}
	type run struct {
		*Verdict
		sample task.Sample
		place  placeOf
	}
	var all tally
	runs, err := outputs(ctx, e, nil, func(i int, s *exec.Sample, v *Verdict) (run, error) {
		sums, err := e.judge.sums(v.outputs, v.outputs, false)
		if err != nil {
			return run{}, err
		}
		e.judge.reaches(sums, v)
		all.add(i, sums)
		if s.Sequence != nil && s.Step == s.Sequence.Steps-1 {
			e.ends++ // steps are run one after the other
		}
		return run{v, task.Sample{Name: s.Name, Label: s.Label, Float: v.own}, placeIn(s)}, nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		e.float, e.seen = append(e.float, r.Verdict), append(e.seen, r.sample)
	}
	e.blocks = blocksIn(placesOf(runs, func(r run) placeOf { return r.place }))
	e.weights = e.judge.weigh(&all)
	if e.samples = samples; rec.room >= 0 {
		e.samples = func() exec.Iterator { return &exec.InMemory{Samples: rec.seen} }
	}
	return e, nil
}

// On is an evaluator of another graph, with the same inputs and outputs, by what this one's graph gives in float on the same samples. parts
// are those of NewEvaluator.
func (e *Evaluator) On(ctx context.Context, g *graph.Graph, parts ...Slice) (*Evaluator, error) {
	n := *e
	n.judge = NewJudge(g, parts...)
	n.g, n.given = n.judge.g, g
	var err error
	n.session, err = exec.New(n.judge.Runs(), exec.Options{Context: ctx})
	return &n, err
}

// recorder remembers the samples it hands on, as long as there is room.
type recorder struct {
	exec.Iterator
	seen []*exec.Sample
	room int64 // negative: there was not
}

func (r *recorder) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := r.Iterator.Next(ctx)
	if err != nil || r.room < 0 {
		return s, err
	}
	for _, t := range s.Feeds {
		r.room -= int64(t.DType.Bytes(t.Len()))
	}
	if r.seen = append(r.seen, s); r.room < 0 {
		r.seen = nil
	}
	return s, nil
}

// Blocks are those of the samples.
func (e *Evaluator) Blocks() Blocks { return e.blocks }

// Error runs the quantized graph and returns its error at the graph outputs: the largest NSR and MSE and the smallest cosine.
func (e *Evaluator) Error(ctx context.Context, q *sim.Simulator) (Error, error) {
	results, err := outputs(ctx, e, q, func(i int, _ *exec.Sample, v *Verdict) ([]outputError, error) {
		return e.judge.compareOutputs(v.outputs, e.float[i].outputs)
	})
	if err != nil {
		return Error{}, err
	}
	meters := make([]meter, len(e.g.Outputs))
	for _, r := range results {
		for k := range meters {
			meters[k].add(r[k].Error)
		}
	}
	w, _ := worst(meters, results[0])
	return w, nil
}

// Losses runs the quantized graph and returns what the judge says of every sample, in their order.
func (e *Evaluator) Losses(ctx context.Context, q *sim.Simulator) (Losses, error) {
	return outputs(ctx, e, q, e.losses)
}

// losses are what the judge says of one sample: by output, and behind that by slice.
func (e *Evaluator) losses(i int, _ *exec.Sample, v *Verdict) ([]float64, error) {
	list, err := e.judge.Losses(v, e.float[i])
	if err != nil {
		return nil, err
	}
	sums, err := e.judge.sums(v.outputs, e.float[i].outputs, false)
	if err != nil {
		return nil, err
	}
	return e.weights.row(e.first+i, list, func(i int) float64 { return sums[i].noise }), nil
}

// Mismatches says that no output is float: losses are shares of elements that differ.
func (e *Evaluator) Mismatches() bool { return e.judge.Mismatches() }

// Judged has the Losses, and the Slices of outputs that are integers beside float ones, which losses say nothing of: without answers, for
// samples without labels.
func (e *Evaluator) Judged(ctx context.Context, q *sim.Simulator) (*Accuracy, error) {
	mixed := e.judge.float && slices.ContainsFunc(e.judge.g.Outputs, func(v graph.ValueID) bool { return !e.g.Value(v).DType.IsFloat() })
	all := tally{blocks: e.blocks}
	losses, err := outputs(ctx, e, q, func(i int, s *exec.Sample, v *Verdict) ([]float64, error) {
		if mixed {
			sums, err := e.judge.sums(v.outputs, e.float[i].outputs, false)
			if err != nil {
				return nil, err
			}
			all.add(i, sums)
		}
		return e.losses(i, s, v)
	})
	if err != nil {
		return nil, err
	}
	r := &Accuracy{Losses: losses, Noise: &Noise{}}
	if mixed {
		r.Slices = Mismatches(e.judge.list(&all))
	}
	return r, nil
}

// LossesWhile is Losses that stops early: after half of the samples and then after each few more (as many as threads, two at least) asks
// whether to go on, given those so far. nil says that it did not.
func (e *Evaluator) LossesWhile(ctx context.Context, q *sim.Simulator, more func(Losses) bool) (Losses, error) {
	var all Losses
	it, n := e.samples(), len(e.float)
	rolling := new(exec.Rolling)
	for step := (n + 1) / 2; len(all) < n; step = max(2, e.threads) {
		if len(all) > 0 && !more(all) {
			return nil, nil
		}
		some := *e
		some.float, some.first, some.rolling = e.float[len(all):], e.first+len(all), rolling
		some.samples = func() exec.Iterator { return &limited{it, step} }
		l, err := some.Losses(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, l...)
	}
	return all, nil
}

// limited is the next few samples of an iterator.
type limited struct {
	exec.Iterator
	left int
}

func (l *limited) Next(ctx context.Context) (*exec.Sample, error) {
	if l.left--; l.left < 0 {
		return nil, io.EOF
	}
	return l.Iterator.Next(ctx)
}

// Accuracy runs the quantized graph and says how often it is right and how often it answers otherwise than in float, as Eval does.
func (e *Evaluator) Accuracy(ctx context.Context, q *sim.Simulator) (*Accuracy, error) {
	metrics, all := classes(), &tally{blocks: e.blocks}
	answers, err := outputs(ctx, e, q, func(i int, s *exec.Sample, v *Verdict) (a answer, err error) {
		a.sample, a.label = s.Name, s.Label
		if a.runs[float], err = records(metrics, e.seen[i], e.float[i].own); err == nil {
			a.runs[quant], err = records(metrics, e.seen[i], v.own)
		}
		if err == nil {
			a.losses, err = e.losses(i, s, v)
		}
		if err == nil {
			var sums []sum
			if sums, err = e.judge.sums(v.outputs, e.float[i].outputs, true); err == nil {
				all.add(i, sums)
			}
		}
		if err == nil {
			a.plain, err = e.judge.Plain(v, e.float[i])
		}
		if err == nil {
			a.changes, err = e.judge.changes(v, e.float[i])
		}
		return a, err
	})
	if err != nil {
		return nil, err
	}
	r := score(metrics, answers, true, e.blocks)
	r.Noise = noise(answers, e.judge, all, e.judge.Classes())
	if r.Noise != nil {
		r.Slices = e.judge.list(all)
		r.Headlines = e.judge.headlines(changesOf(answers), r.Slices, e.weights)
	}
	return r, nil
}

// Records runs the quantized graph and returns what a metric keeps of every sample, in their order; for a nil graph, of the float outputs.
func (e *Evaluator) Records(ctx context.Context, q *sim.Simulator, s task.Scorer) ([]task.Record, error) {
	if q != nil {
		return outputs(ctx, e, q, func(i int, _ *exec.Sample, v *Verdict) (task.Record, error) { return s.Record(e.seen[i], v.own) })
	}
	all := make([]task.Record, len(e.seen))
	for i, seen := range e.seen {
		var err error
		if all[i], err = s.Record(seen, seen.Float); err != nil {
			return nil, fmt.Errorf("evaluate: sample %s: %w", seen.Name, err)
		}
	}
	return all, nil
}

// outputs runs all samples, quantized unless q is nil, and collects what f makes of the runs. f is called in parallel.
func outputs[T any](ctx context.Context, e *Evaluator, q *sim.Simulator, f func(i int, s *exec.Sample, v *Verdict) (T, error)) ([]T,
	error) {
	return outputsUnder(ctx, e, func() *exec.Hooks {
		if q == nil {
			return nil
		}
		return q.Hooks(nil)
	}, f)
}

// outputsUnder is outputs under hooks, of which every goroutine gets its own.
func outputsUnder[T any](ctx context.Context, e *Evaluator, hooksOf func() *exec.Hooks,
	f func(i int, s *exec.Sample, v *Verdict) (T, error)) ([]T, error) {
	samples := e.samples()
	kept := exec.Work{Outputs: max(samples.Len(), len(e.float))}
	c := collector[T]{stage: "evaluate", threads: e.threads, graph: e.g, work: kept}
	rolling, runs := cmp.Or(e.rolling, new(exec.Rolling)), e.judge.Runs()
	defer e.session.Forget() // weights of several quantizations, until the next ones
	c.worker = func() func(context.Context, int, *exec.Sample) (T, error) {
		runner, hooks := e.session.NewRunner(), hooksOf()
		return func(ctx context.Context, i int, s *exec.Sample) (T, error) {
			var v Verdict
			out, err := runner.Run(ctx, rolling.Feeds(s), e.judge.Watch(hooks, &v))
			if err == nil {
				err = rolling.Keep(runs, s, out)
			}
			if err != nil {
				var none T
				return none, err
			}
			v.Outputs(out)
			e.judge.Hide(&v, s)
			return f(i, s, &v)
		}
	}
	return c.run(ctx, samples)
}
