package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// spearman is the correlation of ranks between the network's numbers and the labels, ties with their mean rank.
var spearman = &Metric{Name: "spearman", Graded: true,
	Doc: "rank correlation (Spearman) of the number that the network gives with the label; labels: file<TAB>number",
	Open: func(l Labels) (Scorer, error) {
		s := spearmanScorer{float: l.Float}
		if l.Float {
			return s, nil
		}
		var err error
		s.numbers, err = readTable(l, func(text string) (float64, error) {
			x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || math.IsNaN(x) {
				return 0, fmt.Errorf("%q is no number", text)
			}
			return x, nil
		})
		return s, err
	}}

type spearmanScorer struct {
	numbers table[float64]
	float   bool
}

// pair is the record of a correlation.
type pair struct{ Answer, Label float64 }

func (c spearmanScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	answer, err := oneNumber(outputs)
	if err != nil {
		return nil, err
	}
	if c.float {
		label, err := oneNumber(s.Float)
		return pair{answer, label}, err
	}
	label, err := c.numbers.of(s)
	return pair{answer, label}, err
}

// oneNumber is the first output, of one element, or the cosine of the first two, vectors of one length.
func oneNumber(outputs []*tensor.Tensor) (float64, error) {
	x, err := floats(outputs, 0)
	if err != nil || len(x) == 1 {
		return first(x), err
	}
	if len(outputs) > 1 && outputs[1].Len() == len(x) {
		y, err := floats(outputs, 1)
		if err != nil {
			return 0, err
		}
		return angle(x, y)
	}
	return 0, fmt.Errorf("the first output is %s; this metric takes one number, or two outputs of one length whose cosine is the number",
		outputs[0].Type())
}

func first(x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	return float64(x[0])
}

// Score is NaN for fewer than two samples, and where all labels or all answers are equal.
func (spearmanScorer) Score(records []Record) float64 {
	x, y := make([]float64, len(records)), make([]float64, len(records))
	for i, r := range records {
		x[i], y[i] = r.(pair).Answer, r.(pair).Label
	}
	return RankCorrelation(x, y)
}

// RankCorrelation is Spearman's rho of two lists of the same length without NaN, ties with their mean rank; NaN where one is constant.
func RankCorrelation(x, y []float64) float64 {
	a, b := ranks(x), ranks(y)
	middle := float64(len(x)+1) / 2
	var ab, aa, bb float64
	for i := range a {
		da, db := a[i]-middle, b[i]-middle
		ab, aa, bb = ab+da*db, aa+da*da, bb+db*db
	}
	return ab / math.Sqrt(aa*bb)
}

// ranks are those of the numbers from 1; equal ones have the mean of theirs.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		end := i
		for end < len(order) && x[order[end]] == x[order[i]] {
			end++
		}
		for _, at := range order[i:end] {
			out[at] = float64(i+1+end) / 2
		}
		i = end
	}
	return out
}
