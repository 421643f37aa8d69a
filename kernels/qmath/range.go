package qmath

import (
	"errors"
	"fmt"
	"math"
)

// ErrNaN is returned where a range contains NaN.
var ErrNaN = errors.New("range contains NaN")

// Scheme is how a range becomes scale and zero point.
type Scheme struct {
	Symmetric  bool
	PowerOfTwo bool // the scale is rounded up to a power of two
	QMin, QMax int32
	// Divisor overrides what absmax is divided by in a symmetric scheme (default QMax), for targets that need it.
	Divisor  float64
	Rounding Rounding // of the zero point; the scale's own rounding is always float64 -> float32 to nearest even
}

// Outcome says what ScaleFromRange had to do to a degenerate range.
type Outcome uint8

const (
	Ordinary  Outcome = iota
	ZeroRange         // min = max = 0: scale 1, so that everything maps to the zero point
	Denormal          // the scale fell below the smallest normal float32 and was raised to it
	Infinite          // a bound was infinite and was replaced by the largest finite float32 of its sign
)

var outcomeNames = [...]string{"ordinary", "zero range", "denormal scale", "infinite range"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

const (
	smallestNormal    = 0x1p-126
	largestPowerOfTwo = 0x1p127
)

// ScaleFromRange returns scale and zero point for values in [lo, hi].
//
// The range is widened to contain 0. Symmetric: scale = max(|lo|,|hi|) / QMax (or Divisor), zero point 0 for a signed grid
// and the middle (QMin+QMax+1)/2 for an unsigned one. Asymmetric: scale = (hi-lo)/(QMax-QMin),
// zero point = clamp(round(QMin - lo/scale)) computed from the float32 scale. Everything is computed in float64 and rounded
// once to float32. PowerOfTwo rounds the scale up to a power of two before the zero point is computed.
//
// NaN is ErrNaN, lo > hi is an error. Degenerate ranges are mended and reported as the Outcome; the table is in
// docs/numerics.md.
func ScaleFromRange(lo, hi float64, s Scheme) (scale float32, zeroPoint int32, out Outcome, err error) {
	if math.IsNaN(lo) || math.IsNaN(hi) {
		return 0, 0, 0, ErrNaN
	}
	if lo > hi {
		return 0, 0, 0, fmt.Errorf("range [%g, %g] is empty", lo, hi)
	}
	if s.QMin >= s.QMax {
		return 0, 0, 0, fmt.Errorf("integer range [%d, %d] is empty", s.QMin, s.QMax)
	}
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		lo, hi, out = max(lo, -math.MaxFloat32), min(hi, math.MaxFloat32), Infinite
	}
	lo, hi = min(lo, 0), max(hi, 0)
	neutral := int32(0)
	if s.QMin >= 0 {
		neutral = int32((int64(s.QMin) + int64(s.QMax) + 1) / 2)
	}
	if lo == 0 && hi == 0 {
		if !s.Symmetric {
			neutral = min(max(0, s.QMin), s.QMax)
		}
		return 1, neutral, ZeroRange, nil
	}
	var wide float64
	if s.Symmetric {
		div := s.Divisor
		if div == 0 {
			div = float64(s.QMax - neutral)
		}
		if !(div > 0) {
			return 0, 0, 0, fmt.Errorf("symmetric scheme on the integers [%d, %d] divides by %g", s.QMin, s.QMax, div)
		}
		wide = max(-lo, hi) / div
	} else {
		wide = (hi - lo) / (float64(s.QMax) - float64(s.QMin))
	}
	if s.PowerOfTwo {
		wide = min(ceilPowerOfTwo(wide), largestPowerOfTwo)
	}
	if wide < smallestNormal {
		wide, out = smallestNormal, Denormal
	}
	scale = float32(min(wide, math.MaxFloat32))
	if s.Symmetric {
		return scale, neutral, out, nil
	}
	zp := s.Rounding.Round(float64(s.QMin) - lo/float64(scale))
	return scale, int32(min(max(zp, float64(s.QMin)), float64(s.QMax))), out, nil
}

// ceilPowerOfTwo returns the smallest power of two that is not below x, for x > 0.
func ceilPowerOfTwo(x float64) float64 {
	f, e := math.Frexp(x) // x = f * 2^e, f in [0.5, 1)
	if f == 0.5 {
		e--
	}
	return math.Ldexp(1, e)
}

// BiasScale returns the scale of an int32 bias: the float32 product of input scale and weight scale.
func BiasScale(x, w float32) float32 { return float32(x * w) }

// QuantizeBias returns round half even of b / scale in float64 and whether it fits into int32; one that does not is
// saturated. NaN gives 0 and does not fit.
func QuantizeBias(b, scale float32) (q int32, fits bool) {
	wide, fits := QuantizeBias64(b, scale)
	if wide != int64(int32(wide)) {
		return int32(min(max(wide, math.MinInt32), math.MaxInt32)), false
	}
	return int32(wide), fits
}

// mostBias64 is the largest magnitude of a bias of 64 bits: sums of products can be added to it.
const mostBias64 = 1 << 62

// QuantizeBias64 is QuantizeBias for the 64-bit accumulators of 16-bit codes: the magnitude of what fits is at most 2^62.
func QuantizeBias64(b, scale float32) (q int64, fits bool) {
	switch r := math.RoundToEven(float64(b) / float64(scale)); {
	case r != r:
		return 0, false
	case r > mostBias64:
		return mostBias64, false
	case r < -mostBias64:
		return -mostBias64, false
	default:
		return int64(r), true
	}
}
