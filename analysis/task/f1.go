package task

import (
	"maps"
	"slices"

	"qwb/graph/tensor"
)

// f1 is the mean over classes of the harmonic mean of precision and recall (macro F1), over classes that are answered or labelled.
var f1 = &Metric{Name: "f1", Percent: true, Classes: true,
	Doc:  "mean over classes of F1, the harmonic mean of precision and recall (macro F1); labels: classes",
	Open: func(l Labels) (Scorer, error) { return f1Scorer{topScorer{1, l.Float}}, nil }}

type f1Scorer struct{ rank topScorer }

func (f f1Scorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	return f.rank.Record(s, outputs)
}

func (f1Scorer) Score(records []Record) float64 {
	right, all := map[int]float64{}, map[int]float64{} // all: labelled and answered
	for _, r := range records {
		k := r.(Ranked)
		all[k.Label]++
		all[k.Class]++
		if k.Label == k.Class {
			right[k.Class]++
		}
	}
	var list []float64
	for _, class := range slices.Sorted(maps.Keys(all)) {
		list = append(list, 2*right[class]/all[class])
	}
	return mean(list)
}
