package task

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// cosine compares embeddings: the first output as one vector with the vector of the label.
var cosine = &Metric{Name: "cosine", Graded: true,
	Doc: "mean cosine between the first output and the label's vector; labels: file<TAB>numbers with spaces between them",
	Open: func(l Labels) (Scorer, error) {
		s := cosineScorer{float: l.Float}
		if l.Float {
			return s, nil
		}
		var err error
		s.vectors, err = readTable(l, func(text string) (x []float32, err error) {
			for _, field := range strings.Fields(text) {
				v, err := strconv.ParseFloat(field, 32)
				if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
					return nil, fmt.Errorf("%q is no number", field)
				}
				x = append(x, float32(v))
			}
			return x, nil
		})
		return s, err
	}}

type cosineScorer struct {
	vectors table[[]float32]
	float   bool
}

func (c cosineScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	x, err := floats(outputs, 0)
	if err != nil {
		return nil, err
	}
	var y []float32
	if c.float {
		y, err = floats(s.Float, 0)
	} else {
		y, err = c.vectors.of(s)
	}
	if err != nil {
		return nil, err
	}
	if len(x) != len(y) {
		return nil, fmt.Errorf("the first output has %d elements, the vector to compare it with %d", len(x), len(y))
	}
	return angle(x, y)
}

// angle is the cosine between two vectors of one length: 1 where both are zero, 0 where one is. Elements that are -inf in one of them, or
// infinite in both, as masked scores and distances are, do not count.
func angle(x, y []float32) (float64, error) {
	var xx, yy, xy float64
	for i, v := range x {
		a, b := float64(v), float64(y[i])
		if math.IsInf(a, -1) || math.IsInf(b, -1) || math.IsInf(a, 1) && math.IsInf(b, 1) {
			continue
		}
		xx, yy, xy = xx+float64(a*a), yy+float64(b*b), xy+float64(a*b)
	}
	switch {
	case math.IsInf(xx+yy, 0):
		return 0, errors.New("an output is too large for a cosine")
	case xx == 0 && yy == 0:
		return 1, nil
	case xx == 0 || yy == 0:
		return 0, nil
	}
	return xy / (math.Sqrt(xx) * math.Sqrt(yy)), nil
}

func (cosineScorer) Terms(r Record) (value, weight float64) { return r.(float64), 1 }

func (c cosineScorer) Score(records []Record) float64 { return quotient(c, records) }
