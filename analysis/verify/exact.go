package verify

import (
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// float64Error is what the second computation itself may be off, relative to the value in steps, plus one: a few operations in
// float64.
const float64Error = 0x1p-44

// mostOwn is the largest bound, in steps, of an arithmetic that a target describes itself: two operands, each half a step off by its
// rounding, and half a step by its multiplier. What a multiplier too narrow, or a shift too short, moves farther is no tie.
const mostOwn = 1.5

// expect computes a step's outputs as operation.exact does, with bounds no larger than the profile may have.
func (c *checked) expect(op operation, r *computer, in []*tensor.Tensor) ([]*exact, error) {
	list, err := op.exact(r, in)
	t, ok := op.(*table)
	between := ok && t.profile.Pivots(t.x, t.y) // codes without an entry take that of another code
	for _, e := range list {
		if e != nil && !e.real && c.profile.Own && !between {
			e.most = mostOwn
		}
	}
	return list, err
}

// exact is an output of a step in real arithmetic, before rounding.
type exact struct {
	// value holds real numbers where the output is real, else steps of the output from its zero point.
	value []float64
	real  bool
	// low and high are the value for the least and the largest integers that inputs may have which were not recorded; nil where
	// all were.
	low, high []float64
	// bound is how far from value the number may lie that the program rounds, without float64Error.
	bound func(i int) float64
	// most limits bound where it is not 0.
	most  float64
	round qmath.Rounding
	zero  int32
	lo,
	hi int32
	// acc and multiplier describe element i of a sum of products; nil elsewhere.
	acc        func(i int) int64
	multiplier func(i int) string
}

// steps makes an exact output on grid y of real numbers; bound is one for all elements.
func (l *layer) steps(values []float64, y qmath.Grid, bound float64) *exact {
	for i := range values {
		values[i] /= float64(y.Scale)
	}
	return &exact{value: values, round: l.rounding(), zero: y.ZeroPoint, lo: y.QMin, hi: y.QMax, bound: func(int) float64 { return bound }}
}

// code rounds v to the grid. NaN is the zero point.
func (e *exact) code(v float64) int32 {
	if math.Abs(v) < 1<<40 { // without branches on what differs by element
		return int32(min(max(int64(e.round.Round(v))+int64(e.zero), int64(e.lo)), int64(e.hi)))
	}
	r := e.round.Round(v) + float64(e.zero)
	switch {
	case r != r:
		return min(max(e.zero, e.lo), e.hi)
	case r <= float64(e.lo):
		return e.lo
	case r >= float64(e.hi):
		return e.hi
	}
	return int32(r)
}

// within returns the whole bound of element i.
func (e *exact) within(i int) float64 {
	b := e.bound(i)
	if e.most != 0 {
		b = min(b, e.most)
	}
	return b + float64Error*(math.Abs(e.value[i])+1)
}

// allows reports whether q is the code of some number within the bound of element i.
func (e *exact) allows(i int, q int32) bool {
	lo, hi := e.codes(i)
	return lo <= q && q <= hi
}

// codes returns the least and the largest code of element i.
func (e *exact) codes(i int) (lo, hi int32) {
	low, high, b := e.value[i], e.value[i], e.within(i)
	if e.low != nil {
		low, high = e.low[i], e.high[i]
	}
	return e.code(low - b), e.code(high + b)
}

// off is how far element i has to move until its code is q, for a q that it is not; 0 where what was not recorded explains q.
func (e *exact) off(i int, q int32) float64 {
	if e.low == nil {
		return e.distance(e.value[i], q)
	}
	switch {
	case q < e.code(e.low[i]):
		return e.distance(e.low[i], q)
	case q > e.code(e.high[i]):
		return e.distance(e.high[i], q)
	}
	return 0
}

// distance is how far v has to move until its code is q, for a q that it is not; v is limited to the grid first.
func (e *exact) distance(v float64, q int32) float64 {
	v = min(max(v, float64(e.lo-e.zero)), float64(e.hi-e.zero))
	at := float64(q - e.zero)
	switch e.round {
	case qmath.Down:
		if at < v {
			return v - at - 1
		}
		return at - v
	case qmath.Up:
		if at > v {
			return at - 1 - v
		}
		return v - at
	}
	return math.Abs(v-at) - 0.5
}
