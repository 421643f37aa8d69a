package task

import "qwb/graph/tensor"

// Reading is the scoring with outputs of the network in another order: the metric's first output is the one of index order[0], and so on.
func (s Scoring) Reading(order []int) Scoring {
	s.Scorer = chosen{s.Scorer, order}
	return s
}

// chosen is a scorer that is shown some of the outputs.
type chosen struct {
	Scorer
	order []int
}

func (c chosen) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	if s.Float != nil {
		s.Float = c.of(s.Float)
	}
	return c.Scorer.Record(s, c.of(outputs))
}

func (c chosen) of(outputs []*tensor.Tensor) []*tensor.Tensor {
	list := make([]*tensor.Tensor, len(c.order))
	for i, k := range c.order {
		list[i] = outputs[k]
	}
	return list
}
