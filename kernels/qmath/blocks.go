package qmath

import "math"

// BlockSize is the number of elements of the blocks of ggml and InferLLM.
const BlockSize = 32

// BlockScale is how a format stores the scale of a block, which rounds it.
type BlockScale uint8

const (
	HalfScale  BlockScale = iota // IEEE half precision: ggml
	FloatScale                   // float32: InferLLM
)

// Stored returns the scale as it is read again.
func (s BlockScale) Stored(d float32) float32 {
	if s == HalfScale {
		return FP16.Round(d)
	}
	return d
}

// BlockRule says how a block of BlockSize elements becomes codes and a scale.
type BlockRule struct {
	Bits   int // 8: codes from -127 to 127; 4: from -8 to 7
	Scale  BlockScale
	Search bool // the scale with the smallest squared error, where that is smaller than the format's own
}

// Quantize writes the codes of one block and returns its scale as it is stored, in the way of the format's own quantizer, where d is
// the scale before it is stored, and away is rounding half away from zero:
//
//	8 bits, HalfScale   d = max|x| / 127           code = away(x * (1/d))           Q8_0 of ggml
//	4 bits, HalfScale   d = m / -8                 code = trunc(x * (1/d) + 8.5) - 8, at most 7; m is the first element of the
//	                                               largest magnitude, with its sign  Q4_0 of ggml
//	8 bits, FloatScale  d = max|x| / 127           code = away(x * (1/d))           Q8_0 of InferLLM
//	4 bits, FloatScale  d = max|x| / 7             code = away(x * (1/d))           Q4_0 of InferLLM
//
// A block of zeros has scale and codes 0, and so has one so small that 1/d is infinite. A searched scale has codes
// half-even(x / scale as stored). It reports whether x is finite and its scale can be stored.
func (r BlockRule) Quantize(codes []int8, x []float32) (scale float32, ok bool) {
	m := float32(0)
	for _, v := range x {
		if v-v != 0 {
			return 0, false
		}
		if Abs32(v) > Abs32(m) {
			m = v
		}
	}
	d := r.plain(m)
	inverse := 1 / d
	if d == 0 || inverse-inverse != 0 {
		clear(codes)
		return 0, true
	}
	for i, v := range x {
		codes[i] = r.code(float32(v * inverse))
	}
	scale = r.Scale.Stored(d)
	if r.Search {
		scale = r.search(codes, x, scale)
	}
	return scale, scale-scale == 0
}

// plain is the scale of the format's own quantizer for a block whose element of the largest magnitude is m.
func (r BlockRule) plain(m float32) float32 {
	switch {
	case r.Bits == 8:
		return Abs32(m) / GroupMax
	case r.Scale == FloatScale:
		return Abs32(m) / Int4Max
	}
	return m / -8
}

func (r BlockRule) code(v float32) int8 {
	if r.Bits == 4 && r.Scale == HalfScale {
		return int8(min(max(int32(v+8.5), 0), 15) - 8)
	}
	limit := r.limit()
	return int8(min(max(nearestAway(v), -limit), limit))
}

// nearestAway rounds half away from zero, for magnitudes below 2^30: the sum is exact in float64, or so little that it does not matter.
func nearestAway(v float32) int32 {
	if v < 0 {
		return int32(float64(v) - 0.5)
	}
	return int32(float64(v) + 0.5)
}

func (r BlockRule) limit() int32 {
	if r.Bits == 8 {
		return GroupMax
	}
	return Int4Max
}

// Codes writes the codes of a block that has the given searched scale; see GroupRule.Codes.
func (r BlockRule) Codes(codes []int8, x []float32, scale float32) {
	lo, hi := r.span()
	for i, v := range x {
		codes[i] = 0
		if scale != 0 {
			codes[i] = int8(min(max(nearestEven(v/scale), lo), hi))
		}
	}
}

// span is the range of the codes.
func (r BlockRule) span() (lo, hi int32) {
	if r.Bits == 8 {
		return -GroupMax, GroupMax
	}
	return -8, Int4Max
}

// search looks for a scale that is better than the one that codes were made with, writes its codes and returns it. With one code more
// on the negative side, the scale may be negative.
func (r BlockRule) search(codes []int8, x []float32, scale float32) float32 {
	lo, hi := r.span()
	var s scaleSearch
	least := SquaredError(x, codes, scale)
	var trial [BlockSize]int8
	tried := trial[:len(x)]
	for _, d := range []float64{s.best(x, nil, lo, hi), -s.best(x, nil, -hi, -lo)} {
		d := r.Scale.Stored(float32(d))
		if d == 0 || d-d != 0 {
			continue
		}
		r.Codes(tried, x, d)
		if e := SquaredError(x, tried, d); e < least {
			scale, least = d, e
			copy(codes, tried)
		}
	}
	return scale
}

// SquaredError is the sum of the squared differences between x and codes times scale, in float64.
func SquaredError(x []float32, codes []int8, scale float32) float64 {
	sum := 0.0
	for i, v := range x {
		d := float64(v) - float64(codes[i])*float64(scale)
		sum += d * d
	}
	return sum
}

// Steps returns how far x is from code times scale, in steps of scale: 0 to 0.5 where it was rounded to the nearest; 0 where scale
// is 0 and x is 0.
func Steps(x float32, code int8, scale float32) float64 {
	d := math.Abs(float64(x) - float64(code)*float64(scale))
	if d == 0 {
		return 0
	}
	return d / math.Abs(float64(scale))
}
