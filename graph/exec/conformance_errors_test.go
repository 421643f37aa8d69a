package exec_test

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph/tensor"
)

// near compares type, shape and elements: floats within |a-b| <= atol + rtol*|b|, everything else exactly.
func near(got, want *tensor.Tensor, rtol, atol float64) error {
	if got == nil {
		return fmt.Errorf("no output, want %s", want.Type())
	}
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("got %s, want %s", got.Type(), want.Type())
	}
	g, w := floats(got), floats(want)
	if w == nil {
		if !tensor.Equal(got, want) {
			return fmt.Errorf("%s differs: %.100v, want %.100v", got.Type(), got.Data, want.Data)
		}
		return nil
	}
	for i := range w {
		a, b := g[i], w[i]
		if math.IsNaN(a) && math.IsNaN(b) || a == b {
			continue
		}
		if !(math.Abs(a-b) <= atol+rtol*math.Abs(b)) {
			return fmt.Errorf("%s differs at %d: %g, want %g", got.Type(), i, a, b)
		}
	}
	return nil
}

// floatFormat is a floating-point format: the bits of its fraction and its smallest normal exponent.
type floatFormat struct{ fraction, least int }

var floatFormats = map[tensor.DType]floatFormat{
	tensor.Float64: {52, -1022}, tensor.Float32: {23, -126}, tensor.Float16: {10, -14}, tensor.BFloat16: {7, -126},
}

// floats returns float elements as float64, nil for other types.
func floats(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Len())
	switch d := t.Data.(type) {
	case []float64:
		copy(out, d)
	case []float32:
		for i, v := range d {
			out[i] = float64(v)
		}
	case []uint16:
		if t.DType == tensor.Uint16 {
			return nil
		}
		for i, v := range d {
			if out[i] = float64(math.Float32frombits(uint32(v) << 16)); t.DType == tensor.Float16 {
				out[i] = half(v)
			}
		}
	default:
		return nil
	}
	return out
}

// half decodes IEEE binary16.
func half(v uint16) float64 {
	sign, exp, frac := 1-2*float64(v>>15), int(v>>10&31), float64(v&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// step returns the distance of neighbouring numbers of format f at x.
func (f floatFormat) step(x float64) float64 {
	_, exp := math.Frexp(math.Abs(x))
	return math.Ldexp(1, max(exp-1, f.least)-f.fraction)
}

// ulps is the largest error of some results, in units in the last place.
type ulps struct {
	own     float64 // of the expected element
	largest float64 // of the largest expected element of its tensor
}

// errorOf returns the error of float outputs; false for other types.
func errorOf(got, want *tensor.Tensor) (u ulps, ok bool) {
	f, ok := floatFormats[want.DType]
	if !ok {
		return u, false
	}
	g, w := floats(got), floats(want)
	most := 0.0
	for _, v := range w {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			most = max(most, math.Abs(v))
		}
	}
	for i, v := range w {
		if v == g[i] || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		u.own = max(u.own, math.Abs(g[i]-v)/f.step(v))
		u.largest = max(u.largest, math.Abs(g[i]-v)/f.step(most))
	}
	return u, true
}
