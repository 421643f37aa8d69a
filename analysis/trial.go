package analysis

import (
	"context"

	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Measured is what is known of one run of all samples, by sample.
type Measured struct {
	Losses  Losses        // what the judge says; nil in float
	Errors  [][]Error     // of every output against float, and of every slice, 0 for those that do not count; nil in float
	Records []task.Record // nil without a scorer
}

// measuredSample is what is known of one sample.
type measuredSample struct {
	losses []float64
	errors []Error
	record task.Record
}

// Measure runs the graph, quantized unless q is nil, and returns what is known of every sample, in their order. scorer may be nil. Of
// sequences, where there are two at least, losses and errors are those at their last steps: what has added up till then is what counts.
func (e *Evaluator) Measure(ctx context.Context, q *sim.Simulator, scorer task.Scorer) (*Measured, error) {
	list, err := outputs(ctx, e, q, func(i int, s *exec.Sample, v *Verdict) (r measuredSample, err error) {
		if q != nil && e.counts(s) {
			if r.losses, err = e.losses(i, s, v); err != nil {
				return r, err
			}
			if r.errors, err = e.errors(i, v.outputs, e.float[i].outputs); err != nil {
				return r, err
			}
		}
		r.record, err = e.record(scorer, i, s, v.own)
		return r, err
	})
	return collected(list, err)
}

// MeasureOf is Measure of anything that runs the graph, which is called for one sample at a time. There are no losses, and no errors of
// outputs whose size depends on the numbers.
func (e *Evaluator) MeasureOf(ctx context.Context, forward Forward, scorer task.Scorer) (*Measured, error) {
	var rolling exec.Rolling
	c := collector[measuredSample]{stage: "evaluate", threads: 1, graph: e.g, work: exec.Work{Outputs: len(e.float)},
		worker: func() func(context.Context, int, *exec.Sample) (measuredSample, error) {
			return func(ctx context.Context, i int, s *exec.Sample) (r measuredSample, err error) {
				out, err := forward(ctx, rolling.Feeds(s))
				if err == nil {
					err = rolling.Keep(e.given, s, out)
				}
				if err != nil {
					return r, err
				}
				var v Verdict
				v.Outputs(out)
				if e.judge.Hide(&v, s); e.judge.own == nil && e.counts(s) {
					if r.errors, err = e.errors(i, v.outputs, e.float[i].outputs); err != nil {
						return r, err
					}
				}
				r.record, err = e.record(scorer, i, s, v.own)
				return r, err
			}
		}}
	list, err := c.run(ctx, e.samples())
	return collected(list, err)
}

// counts reports whether losses and errors are of this sample; see Measure.
func (e *Evaluator) counts(s *exec.Sample) bool {
	return e.ends < 2 || s.Sequence != nil && s.Step == s.Sequence.Steps-1
}

// record scores the outputs for a sample; nil without a scorer.
func (e *Evaluator) record(scorer task.Scorer, i int, s *exec.Sample, out []*tensor.Tensor) (task.Record, error) {
	if scorer == nil {
		return nil, nil
	}
	return scorer.Record(task.Sample{Name: s.Name, Label: s.Label, Float: e.float[i].own}, out)
}

func collected(list []measuredSample, err error) (*Measured, error) {
	if err != nil {
		return nil, err
	}
	m := &Measured{}
	for _, r := range list {
		if r.losses != nil {
			m.Losses = append(m.Losses, r.losses)
		}
		if r.errors != nil {
			m.Errors = append(m.Errors, r.errors)
		}
		if r.record != nil {
			m.Records = append(m.Records, r.record)
		}
	}
	return m, nil
}

// errors compares outputs with those of float: all float ones, or the integer ones where there is no other. Behind them stand the slices,
// by the amounts of Losses; what does not count, an output without a signal for one, has no error.
func (e *Evaluator) errors(sample int, q, f []*tensor.Tensor) ([]Error, error) {
	list, err := e.judge.compareOutputs(q, f)
	if err != nil {
		return nil, err
	}
	sums, err := e.judge.sums(q, f, false)
	if err != nil {
		return nil, err
	}
	var floats, all []Error
	for k, o := range list {
		if w := e.weights.of[k] * e.weights.empty[k].weight(e.first+sample); w == 0 {
			o.Error = Error{Cosine: 1}
		} else {
			o.NSR *= w
		}
		if all = append(all, o.Error); !o.integer {
			floats = append(floats, o.Error)
		}
	}
	if len(floats) == 0 {
		return all, nil
	}
	for i := len(list); i < len(sums); i++ {
		x := Error{Cosine: 1}
		if s := &sums[i]; e.weights.of[i] > 0 {
			x = Error{NSR: s.noise * e.weights.of[i], MSE: s.noise / float64(max(s.n, 1)), Cosine: cosine(s.dot, s.other, s.signal)}
		}
		floats = append(floats, x)
	}
	return floats, nil
}
