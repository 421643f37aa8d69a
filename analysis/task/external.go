package task

import (
	"errors"
	"math"
	"sync"

	"qwb/graph/tensor"
)

// External is the weighted mean of what a function says of each sample: how good the outputs are, the larger the better, and how much the
// sample weighs. It is called for one sample at a time, and not again after an error.
func External(score func(sample string, label int, outputs []*tensor.Tensor) (value, weight float64, err error)) Scoring {
	return Scoring{Metric: &Metric{Name: "command"}, Scorer: &external{score: score}}
}

type external struct {
	mu     sync.Mutex
	failed error // what went wrong first
	score  func(sample string, label int, outputs []*tensor.Tensor) (value, weight float64, err error)
}

// weighted is the record of a mean.
type weighted struct{ Value, Weight float64 }

func (e *external) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed != nil {
		return nil, e.failed
	}
	value, weight, err := e.score(s.Name, s.Label, outputs)
	if err == nil && (!(weight >= 0) || math.IsInf(weight, 0) || math.IsNaN(value) || math.IsInf(value, 0)) {
		err = errors.New("the metric's command gave a value or a weight that is not finite, or a negative weight")
	}
	e.failed = err
	return weighted{value * weight, weight}, err
}

func (*external) Terms(r Record) (value, weight float64) {
	w := r.(weighted)
	return w.Value, w.Weight
}

func (e *external) Score(records []Record) float64 { return quotient(e, records) }
