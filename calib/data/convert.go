package data

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Convert returns t as elements of type d: t itself where it has that type, else a copy. A number that d cannot hold is an
// error; only from floats to floats may digits be lost, by rounding to nearest even, and numbers below the smallest become 0.
// Booleans, strings and floats of less than 16 bits are not converted.
func Convert(t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if t.DType == d || d == tensor.Undefined {
		return t, nil
	}
	from, ok := reader(t)
	if !ok || !d.IsFloat() && (!d.IsInteger() || d.Bits() < 8) {
		return nil, fmt.Errorf("%s cannot be fed as %s", t.Type(), d)
	}
	out := tensor.New(d, t.Shape...)
	var bad int
	switch dst := out.Data.(type) {
	case []float32:
		bad = fill(dst, from, func(v float64) (float32, bool) {
			f := float32(v)
			return f, float64(f) == v || t.DType.IsFloat() && (!math.IsInf(float64(f), 0) || math.IsInf(v, 0))
		})
	case []float64:
		bad = fill(dst, from, func(v float64) (float64, bool) { return v, t.DType.IsFloat() || v == v })
	case []int8:
		bad = fill(dst, from, exact[int8](math.MinInt8, math.MaxInt8))
	case []int16:
		bad = fill(dst, from, exact[int16](math.MinInt16, math.MaxInt16))
	case []int32:
		bad = fill(dst, from, exact[int32](math.MinInt32, math.MaxInt32))
	case []int64:
		bad = fill(dst, from, exact[int64](-1<<53, 1<<53))
	case []uint8:
		bad = fill(dst, from, exact[uint8](0, math.MaxUint8))
	case []uint32:
		bad = fill(dst, from, exact[uint32](0, math.MaxUint32))
	case []uint64:
		bad = fill(dst, from, exact[uint64](0, 1<<53))
	case []uint16:
		to := exact[uint16](0, math.MaxUint16)
		switch d {
		case tensor.Float16:
			to = rounded(qmath.Half, t.DType.IsFloat())
		case tensor.BFloat16:
			to = rounded(qmath.Brain, t.DType.IsFloat())
		}
		bad = fill(dst, from, to)
	}
	if bad >= 0 {
		return nil, fmt.Errorf("%s cannot be fed as %s: element %d is %v", t.Type(), d, bad, from(bad))
	}
	return out, nil
}

// reader returns the elements of t as float64 by index. Integers beyond 2^53 come out as NaN,
// which is taken from floats only.
func reader(t *tensor.Tensor) (func(int) float64, bool) {
	switch s := t.Data.(type) {
	case []float32:
		return func(i int) float64 { return float64(s[i]) }, true
	case []float64:
		return func(i int) float64 { return s[i] }, true
	case []int8:
		return func(i int) float64 { return float64(s[i]) }, true
	case []int16:
		return func(i int) float64 { return float64(s[i]) }, true
	case []int32:
		return func(i int) float64 { return float64(s[i]) }, true
	case []uint32:
		return func(i int) float64 { return float64(s[i]) }, true
	case []int64:
		return func(i int) float64 { return wide(s[i], s[i] > 1<<53 || s[i] < -1<<53) }, true
	case []uint64:
		return func(i int) float64 { return wide(s[i], s[i] > 1<<53) }, true
	case []uint8:
		return func(i int) float64 { return float64(s[i]) }, t.DType == tensor.Uint8
	case []uint16:
		switch t.DType {
		case tensor.Float16:
			return func(i int) float64 { return float64(qmath.FromHalf(s[i])) }, true
		case tensor.BFloat16:
			return func(i int) float64 { return float64(qmath.FromBrain(s[i])) }, true
		}
		return func(i int) float64 { return float64(s[i]) }, true
	}
	return nil, false
}

func wide[T int64 | uint64](v T, beyond bool) float64 {
	if beyond {
		return math.NaN()
	}
	return float64(v)
}

// fill converts all elements and returns the index of the first that does not fit, -1 if all do.
func fill[T any](dst []T, from func(int) float64, to func(float64) (T, bool)) int {
	for i := range dst {
		v, ok := to(from(i))
		if !ok {
			return i
		}
		dst[i] = v
	}
	return -1
}

// rounded gives the bits of a number in a format of 16 bits: of floats the nearest, of integers the number itself.
func rounded(f qmath.Minifloat, digits bool) func(float64) (uint16, bool) {
	return func(v float64) (uint16, bool) {
		bits := f.Encode(v, false)
		got := float64(f.Decode(bits))
		return bits, got == v || digits && (!math.IsInf(got, 0) || math.IsInf(v, 0))
	}
}

// exact converts whole numbers within lo and hi.
func exact[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](lo, hi float64) func(float64) (T, bool) {
	return func(v float64) (T, bool) {
		if !(v >= lo && v <= hi) || v != math.Trunc(v) {
			return 0, false
		}
		return T(v), true
	}
}
