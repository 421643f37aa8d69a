package qmath

import (
	"fmt"
	"math"
)

// Form is how an accumulator becomes a code. M and Shift, Scale, Bias and Out are those of Multiplier; z is the output's
// zero point and every form ends with a clamp.
type Form uint8

const (
	// DoubleUpAway is a doubling high product rounded half up, then a shift rounded half away from zero: two roundings.
	DoubleUpAway Form = iota
	// DoubleUpUp is the same with the shift rounded half up.
	DoubleUpUp
	// SingleUp is (acc*M + 2^(t-1)) >> t with t = 31-Shift in 64 bits: one rounding, half up.
	SingleUp
	// SingleUpShift is SingleUp, but a factor that is a power of two is a rounding shift in 32 bits, which may wrap.
	SingleUpShift
	// SingleAway is SingleUp with ties away from zero.
	SingleAway
	// ShiftOnly is acc * 2^(Shift-1), rounded as the profile's Rounding says: factors are powers of two.
	ShiftOnly
	// FloatAfter is round(float32(acc)*Scale + Bias) + z.
	FloatAfter
	// FloatInside is round(float32(acc)*Scale + z): the zero point is inside the rounding.
	FloatInside
	// FloatDivide is round((float32(acc)*Scale + Bias) / Out) + z.
	FloatDivide
	// FloatTwice is round((float32(acc)*Scale + Bias) * Out) + z.
	FloatTwice
	// SingleAny is acc*M / 2^(31-Shift) in 64 bits, rounded once as the Rounding says, with an M of Bits: what an Arithmetic describes.
	SingleAny
)

var formNames = [...]string{"double up away", "double up up", "single up", "single up or shift", "single away", "shift only", "float after",
	"float inside", "float divide", "float twice", "single any"}

func (f Form) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return fmt.Sprintf("form(%d)", uint8(f))
}

// Scaling is the arithmetic of one step from accumulator to code.
type Scaling struct {
	Form     Form
	Rounding Rounding // of ShiftOnly, SingleAny and the float forms but FloatInside, which rounds half to even
	// Bits and Most are of SingleAny: the width of M, and the longest right shift.
	Bits, Most uint8
}

// Float reports whether the step uses float32 operations. The others use int32 and int64 only.
func (s Scaling) Float() bool { return s.Form >= FloatAfter && s.Form <= FloatTwice }

// Requantize returns the code of accumulator acc: scaled, rounded, moved by the zero point zp and clamped to [lo, hi]. A
// fused activation is part of lo and hi. The int32 bias is part of acc, the float one part of m.
func (s Scaling) Requantize(acc int32, m Multiplier, zp, lo, hi int32) int32 {
	if s.Float() {
		return s.roundFloat(s.scaleFloat(float32(acc), m), m, zp, lo, hi)
	}
	return clamp64(int64(s.scale(acc, m))+int64(zp), lo, hi)
}

// scaleFloat is the float32 value before Out, rounding and zero point.
func (s Scaling) scaleFloat(acc float32, m Multiplier) float32 {
	return float32(acc*m.Scale) + m.Bias
}

func (s Scaling) roundFloat(v float32, m Multiplier, zp, lo, hi int32) int32 {
	switch s.Form {
	case FloatDivide:
		v /= m.Out
	case FloatTwice:
		v *= m.Out
		lo = max(lo, -127)
	case FloatInside:
		return clampFloat(HalfEven.Round(float64(v+float32(zp))), 0, lo, hi)
	}
	return clampFloat(s.Rounding.Round(float64(v)), zp, lo, hi)
}

// clampFloat returns integral v + zp limited to [lo, hi]; v may be far outside int32. NaN gives zp, limited.
func clampFloat(v float64, zp, lo, hi int32) int32 {
	switch {
	case v != v:
		return min(max(zp, lo), hi)
	case v+float64(zp) <= float64(lo):
		return lo
	case v+float64(zp) >= float64(hi):
		return hi
	}
	return int32(v) + zp
}

func clamp64(v int64, lo, hi int32) int32 { return int32(min(max(v, int64(lo)), int64(hi))) }

// scale applies an integer form. What it returns is not clamped; what does not fit into int32 wraps, as in the targets.
func (s Scaling) scale(acc int32, m Multiplier) int32 {
	switch s.Form {
	case DoubleUpAway:
		if m.Double != 0 {
			return int32(min(max(HalfAwayFromZero.Round(float64(acc)*m.Double), math.MinInt32), math.MaxInt32))
		}
		return DivideByPowerOfTwo(DoublingHighMul(acc<<max(m.Shift, 0), m.M), max(-m.Shift, 0))
	case DoubleUpUp:
		if m.Shift >= 0 {
			return int32((int64(acc<<m.Shift)*int64(m.M) + 1<<30) >> 31)
		}
		h := (int64(acc)*int64(m.M) + 1<<30) >> 31
		return int32((h + 1<<(-m.Shift-1)) >> -m.Shift)
	case SingleUpShift:
		if k := m.Shift - 1; m.M == 1<<30 && k >= 0 {
			return acc << k
		} else if m.M == 1<<30 {
			return (acc + 1<<(-k-1)) >> -k
		}
	case SingleAway:
		t := 31 - m.Shift
		v := int64(acc) * int64(m.M)
		return int32((v + 1<<(t-1) - int64(uint64(v)>>63)) >> t)
	case ShiftOnly:
		return saturate32(s.Rounding.shift(int64(acc), int(m.Shift)-1))
	case SingleAny:
		return saturate32(s.Rounding.shift(int64(acc)*int64(m.M), int(m.Shift)-31))
	}
	t := 31 - m.Shift
	return int32((int64(acc)*int64(m.M) + 1<<(t-1)) >> t)
}

func saturate32(v int64) int32 { return clamp64(v, math.MinInt32, math.MaxInt32) }

// Fits reports whether Requantize of every accumulator up to acc in magnitude (acc >= 0) stays within its integers. It does
// unless the factor is above 1 or accumulators come close to the end of int32. Where it does not, integer forms give what their
// target gives, which is not a rounding of the exact value.
func (s Scaling) Fits(acc int64, m Multiplier) bool {
	if acc > math.MaxInt32 {
		return false
	}
	if m.Double != 0 {
		return float64(acc)*m.Double < math.MaxInt32
	}
	switch s.Form {
	case DoubleUpAway, DoubleUpUp:
		return acc<<max(m.Shift, 0) <= math.MaxInt32
	case SingleUpShift:
		if m.M == 1<<30 && m.Shift < 1 {
			return acc+1<<-m.Shift <= math.MaxInt32
		}
	}
	return s.Float() || s.Form == ShiftOnly || s.Form == SingleAny || float64(acc)*s.factor(m) < math.MaxInt32
}
