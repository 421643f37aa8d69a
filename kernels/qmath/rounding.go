// Package qmath is the one place that defines how numbers become integers. It has rounding, quantize, dequantize, fake quantize
// and the scale of a range, and the arithmetic profiles of targets: how a target turns accumulators, or codes, into codes. No
// other package rounds on the way from floats to integers. docs/numerics.md derives the formulas, docs/profiles.md describes
// the profiles.
//
// Unstable: it may change without notice.
package qmath

import (
	"fmt"
	"math"
)

// Rounding says where a value exactly or not exactly between two integers goes. The names are PPQ's.
type Rounding uint8

const (
	HalfEven         Rounding = iota // to nearest, ties to even: ONNX QuantizeLinear, IEEE 754 roundTiesToEven
	HalfUp                           // to nearest, ties toward +infinity
	HalfDown                         // to nearest, ties toward -infinity
	HalfTowardsZero                  // to nearest, ties toward zero
	HalfAwayFromZero                 // to nearest, ties away from zero: C round()
	Up                               // ceiling
	Down                             // floor
)

var roundingNames = [...]string{"half-even", "half-up", "half-down", "half-towards-zero", "half-away-from-zero", "up", "down"}

func (r Rounding) String() string {
	if int(r) < len(roundingNames) {
		return roundingNames[r]
	}
	return fmt.Sprintf("rounding(%d)", uint8(r))
}

// MarshalText and UnmarshalText use the names of String.
func (r Rounding) MarshalText() ([]byte, error) {
	if int(r) >= len(roundingNames) {
		return nil, fmt.Errorf("no rounding has number %d", uint8(r))
	}
	return []byte(roundingNames[r]), nil
}

func (r *Rounding) UnmarshalText(b []byte) error {
	for i, name := range roundingNames {
		if name == string(b) {
			*r = Rounding(i)
			return nil
		}
	}
	return fmt.Errorf("unknown rounding %q", b)
}

// Round rounds x to an integral float64. NaN and infinities are returned unchanged.
func (r Rounding) Round(x float64) float64 {
	if r == HalfEven { // most are: one instruction, where this is called
		return math.RoundToEven(x)
	}
	return r.otherwise(x)
}

// otherwise is Round for a rounding other than HalfEven.
func (r Rounding) otherwise(x float64) float64 {
	switch r {
	case HalfUp:
		return nearest(x, math.Ceil)
	case HalfDown:
		return nearest(x, math.Floor)
	case HalfTowardsZero:
		return nearest(x, math.Trunc)
	case HalfAwayFromZero:
		return math.Round(x)
	case Up:
		return math.Ceil(x)
	case Down:
		return math.Floor(x)
	}
	return math.RoundToEven(x)
}

// nearest rounds to the nearest integer and lets tie decide exact halves. x - Trunc(x) is exact for every finite float64;
// x - Floor(x) is not, just above -0.5.
func nearest(x float64, tie func(float64) float64) float64 {
	t := math.Trunc(x)
	switch d := math.Abs(x - t); {
	case d < 0.5:
		return t
	case d > 0.5:
		return t + math.Copysign(1, x)
	case d == 0.5:
		return tie(x)
	}
	return x // NaN, infinities
}
