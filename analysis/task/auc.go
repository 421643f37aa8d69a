package task

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"qwb/graph/tensor"
)

// auc is the area under the ROC curve: the probability that a sample of a class scores higher for it than one of another class, ties
// counted half (Hanley and McNeil, 1982).
var auc = &Metric{Name: "auc", Percent: true, Classes: true,
	Doc:  "area under the ROC curve of one score, or of two classes; of more the mean over classes, each against the rest; labels: classes",
	Open: func(l Labels) (Scorer, error) { return aucScorer{l.Float}, nil }}

type aucScorer struct{ float bool }

// scored is the record of AUC: how much speaks for class 1, or for each of three classes and more.
type scored struct {
	Label  int
	Scores []float32
}

func (a aucScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	x, err := floats(outputs, 0)
	if err != nil {
		return nil, err
	}
	classes := len(x)
	switch classes {
	case 0:
		return nil, errors.New("the first output is empty")
	case 1:
		classes = 2
		if a.float {
			return nil, errors.New("one score needs labels: the float network's answer is no class")
		}
	case 2:
		if x = []float32{x[1] - x[0]}; x[0] != x[0] {
			return nil, errors.New("both scores are infinite, and neither class has more")
		}
	}
	label := s.Label
	if a.float {
		f, err := scores(s.Float)
		if err != nil {
			return nil, err
		}
		label = largest(f)
	}
	if label < 0 || label >= classes {
		return nil, fmt.Errorf("label %d outside the %d classes of the first output; is --label-offset right?", label, classes)
	}
	return scored{label, slices.Clone(x)}, nil
}

// Score leaves out classes that no sample has, or all have.
func (aucScorer) Score(records []Record) float64 {
	if len(records) == 0 {
		return mean(nil)
	}
	k := len(records[0].(scored).Scores)
	if k == 1 {
		return area(records, 0, 1)
	}
	var all []float64
	for class := range k {
		if a := area(records, class, class); a == a {
			all = append(all, a)
		}
	}
	return mean(all)
}

// area is that of the class by one of the scores, by ranks; NaN where there is nothing to tell apart.
func area(records []Record, score, class int) float64 {
	list := make([]scored, len(records))
	for i, r := range records {
		list[i] = r.(scored)
	}
	slices.SortFunc(list, func(a, b scored) int { return cmp.Compare(a.Scores[score], b.Scores[score]) })
	var inside, below, area float64 // below: of the rest, with smaller scores
	for i := 0; i < len(list); {
		var ours, others float64
		for at := list[i].Scores[score]; i < len(list) && list[i].Scores[score] == at; i++ {
			if list[i].Label == class {
				ours++
			} else {
				others++
			}
		}
		area += ours * (below + others/2)
		inside, below = inside+ours, below+others
	}
	return area / (inside * below)
}

// mean is NaN where there is nothing.
func mean(list []float64) float64 {
	var sum float64
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}
