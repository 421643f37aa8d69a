package verify

import (
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// engine is what an engine that sums in float32 may be off, in real units: 4*sqrt(n)*2^-24 of the magnitudes of n terms, which holds
// for all but one sum in a thousand even if every rounding error were as large as it can be (Higham and Mary, A new approach to
// probabilistic rounding error analysis, 2019, with lambda 4). Integer profiles sum exactly.
func (a *again) engine(op operation, in []*tensor.Tensor) (func(i int) float64, error) {
	none := func(int) float64 { return 0 }
	if a.profile.Form != qmath.FloatDivide {
		return none, nil
	}
	switch op := op.(type) {
	case *linear:
		size, terms, err := op.magnitudes(a.computer, in)
		if err != nil {
			return nil, err
		}
		unit := 4 * math.Sqrt(float64(terms)) * 0x1p-24
		return func(i int) float64 { return unit * size[i] }, nil
	case *average:
		n := float64(max(op.most, 1))
		reach := max(float64(op.x.QMax-op.x.ZeroPoint), float64(op.x.ZeroPoint-op.x.QMin)) * float64(op.x.Scale)
		return func(int) float64 { return 4 * math.Sqrt(n) * 0x1p-24 * reach }, nil
	}
	return none, nil
}

// magnitudes returns the sum of the magnitudes of the products of every output, in real units, and how many there are.
func (l *linear) magnitudes(c *computer, in []*tensor.Tensor) ([]float64, int, error) {
	copied := *l
	x := tensor.New(tensor.Int16, in[0].Shape...)
	for i, q := range in[0].Integers() {
		d := q - l.x.ZeroPoint
		x.Data.([]int16)[i] = int16(max(d, -d))
	}
	copied.x.ZeroPoint = 0
	inputs := []*tensor.Tensor{x}
	terms := 0
	if w := l.weights; w != nil {
		positive := *w
		positive.codes, positive.zero = w.filled().centered(), make([]int32, len(w.zero))
		for i, d := range positive.codes {
			positive.codes[i] = max(d, -d)
		}
		copied.weights = &positive
		terms = w.count() / max(len(w.scale), 1)
	} else {
		r := tensor.New(tensor.Int16, in[1].Shape...)
		for i, q := range in[1].Integers() {
			d := q - l.w.ZeroPoint
			r.Data.([]int16)[i] = int16(max(d, -d))
		}
		grid := *l.w
		grid.ZeroPoint = 0
		copied.w = &grid
		inputs = append(inputs, r)
		terms = l.terms(in[0].Shape)
	}
	s, err := copied.accumulate(c, inputs)
	if err != nil {
		return nil, 0, err
	}
	channel := s.channel(l)
	for i := range s.acc {
		s.acc[i] *= float64(l.x.Scale) * float64(l.factor(channel(i)))
	}
	return s.acc, terms, nil
}
