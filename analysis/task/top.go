package task

import (
	"errors"
	"fmt"
	"math"

	"qwb/graph/tensor"
)

// top is top-k accuracy: the share of samples whose class is among the k with the highest scores.
func top(k int) *Metric {
	doc := "share of samples whose class is the one with the highest score; labels: classes"
	if k > 1 {
		doc = fmt.Sprintf("share of samples whose class is among the %d with the highest scores; labels: classes", k)
	}
	return &Metric{Name: fmt.Sprintf("top%d", k), Doc: doc, Percent: true, Classes: true,
		Open: func(l Labels) (Scorer, error) { return topScorer{k, l.Float}, nil }}
}

// Ranked is the record of top-k accuracy.
type Ranked struct {
	Label int // what is right
	Class int // the highest score; of equal ones the lowest class
	Rank  int // of the label among the classes by falling score, from 0; of equal scores the lower class comes first
}

// Hit reports whether the label is among the first k.
func (r Ranked) Hit(k int) bool { return r.Rank < k }

type topScorer struct {
	k     int
	float bool
}

// Record reads the first output as one row of scores, whatever its shape, or as a class if it is one whole number.
func (t topScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	if class, ok := Class(outputs); ok {
		r := Ranked{Label: s.Label, Class: class}
		if t.float {
			r.Label, _ = Class(s.Float)
		}
		if r.Label < 0 {
			return nil, fmt.Errorf("label %d is no class; is --label-offset right?", r.Label)
		}
		if r.Class != r.Label {
			r.Rank = math.MaxInt // there is no second place
		}
		return r, nil
	}
	x, err := scores(outputs)
	if err != nil {
		return nil, err
	}
	r := Ranked{Label: s.Label, Class: largest(x)}
	if t.float {
		f, err := scores(s.Float)
		if err != nil {
			return nil, fmt.Errorf("float: %w", err)
		}
		r.Label = largest(f)
	}
	if r.Label < 0 || r.Label >= len(x) {
		return nil, fmt.Errorf("label %d outside the %d classes of the first output; is --label-offset right?", r.Label, len(x))
	}
	for c, v := range x {
		if v > x[r.Label] || v == x[r.Label] && c < r.Label {
			r.Rank++
		}
	}
	return r, nil
}

func (t topScorer) Terms(r Record) (value, weight float64) {
	if r.(Ranked).Hit(t.k) {
		return 1, 1
	}
	return 0, 1
}

func (t topScorer) Score(records []Record) float64 { return quotient(t, records) }

// Class is the class that the first output is, where that is one whole number, as behind ArgMax; ok is false for others.
func Class(outputs []*tensor.Tensor) (class int, ok bool) {
	if len(outputs) == 0 || outputs[0].Len() != 1 {
		return 0, false
	}
	switch x := outputs[0].Data.(type) {
	case []int64:
		return int(x[0]), true
	case []int32:
		return int(x[0]), true
	}
	return 0, false
}

// scores is the first output as a row of class scores.
func scores(outputs []*tensor.Tensor) ([]float32, error) {
	if len(outputs) == 0 || outputs[0].DType != tensor.Float32 || outputs[0].Len() < 2 {
		return nil, errors.New("the first output is no row of class scores")
	}
	return floats(outputs, 0)
}

// largest is the index of the largest number, the first of equal ones.
func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
