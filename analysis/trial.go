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
	Errors  [][]Error     // of every output against float; nil in float
	Records []task.Record // nil without a scorer
}

// Measure runs the graph, quantized unless q is nil, and returns what is known of every sample, in their order. scorer may be nil.
func (e *Evaluator) Measure(ctx context.Context, q *sim.Simulator, scorer task.Scorer) (*Measured, error) {
	type one struct {
		losses []float64
		errors []Error
		record task.Record
	}
	list, err := outputs(ctx, e, q, func(i int, s *exec.Sample, v *Verdict) (r one, err error) {
		if scorer != nil {
			float := v.outputs
			if e.float != nil {
				float = e.float[i].outputs
			}
			if r.record, err = scorer.Record(task.Sample{Name: s.Name, Label: s.Label, Float: float}, v.outputs); err != nil {
				return r, err
			}
		}
		if q == nil {
			return r, nil
		}
		if r.losses, err = e.judge.Losses(v, e.float[i]); err != nil {
			return r, err
		}
		r.errors, err = e.errors(v.outputs, e.float[i].outputs)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	m := &Measured{}
	for _, r := range list {
		if q != nil {
			m.Losses, m.Errors = append(m.Losses, r.losses), append(m.Errors, r.errors)
		}
		if scorer != nil {
			m.Records = append(m.Records, r.record)
		}
	}
	return m, nil
}

// errors compares outputs with those of float: all float ones, or the integer ones where there is no other.
func (e *Evaluator) errors(q, f []*tensor.Tensor) ([]Error, error) {
	list, err := compareOutputs(e.g, q, f)
	if err != nil {
		return nil, err
	}
	var floats, all []Error
	for _, o := range list {
		if all = append(all, o.Error); !o.integer {
			floats = append(floats, o.Error)
		}
	}
	if len(floats) > 0 {
		return floats, nil
	}
	return all, nil
}
