package qmath

import (
	"math"
	"math/bits"
)

// Requantize64 is Requantize for accumulators of 64 bits: 16-bit activations with an int64 bias. DoubleUpAway and SingleUp
// take TFLite's form for them (kernels with int16 activations): the multiplier rounded to 15 bits, one rounding half up.
// The other integer forms are the same formula in wider arithmetic, and the float forms convert acc to float32.
func (s Scaling) Requantize64(acc int64, m Multiplier, zp, lo, hi int32) int32 {
	if s.Float() {
		return s.roundFloat(s.scaleFloat(float32(acc), m), m, zp, lo, hi)
	}
	if m.Double != 0 {
		return clampFloat(HalfAwayFromZero.Round(float64(acc)*m.Double), zp, lo, hi)
	}
	var v int64
	switch s.Form {
	case DoubleUpAway, SingleUp:
		reduced := int64(0x7fff)
		if m.M < 0x7fff0000 {
			reduced = (int64(m.M) + 1<<15) >> 16
		}
		v = mulShift(acc, reduced, 15-int(m.Shift), HalfUp)
	case DoubleUpUp:
		v = mulShift(acc<<max(m.Shift, 0), int64(m.M), 31, HalfUp)
		v = HalfUp.shift(v, int(min(m.Shift, 0)))
	case SingleAway:
		v = mulShift(acc, int64(m.M), 31-int(m.Shift), HalfAwayFromZero)
	case SingleAny:
		v = s.Rounding.mulShift(acc, int64(m.M), 31-int(m.Shift))
	case ShiftOnly:
		v = s.Rounding.shift(acc, int(m.Shift)-1)
	default: // SingleUpShift
		v = mulShift(acc, int64(m.M), 31-int(m.Shift), HalfUp)
	}
	// The clamp comes before the zero point, which a saturated v would overflow.
	v = min(max(v, int64(lo)-int64(zp)), int64(hi)-int64(zp))
	return int32(v) + zp
}

// mulShift returns x*m / 2^n for n in [1, 62] and 0 <= m < 2^31, rounded half up or half away from zero in 128 bits. A result
// beyond int64 saturates.
func mulShift(x, m int64, n int, r Rounding) int64 {
	negative := x < 0
	magnitude := uint64(x)
	if negative {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, uint64(m))
	half := uint64(1) << (n - 1)
	if negative && r == HalfUp {
		half-- // of magnitudes, half up is half down
	}
	low, carry := bits.Add64(low, half, 0)
	high += carry
	q := high<<(64-n) | low>>n
	if high>>n != 0 || q > 1<<63-1 {
		q = 1<<63 - 1
	}
	if negative {
		return -int64(q)
	}
	return int64(q)
}

// mulShift returns x*m / 2^n for n in [1, 62] and 0 <= m < 2^31, rounded by r in 128 bits. A result beyond int64 saturates.
func (r Rounding) mulShift(x, m int64, n int) int64 {
	negative := x < 0
	magnitude := uint64(x)
	if negative {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, uint64(m))
	rest := int64(low & (1<<n - 1))
	if high>>n != 0 || high<<(64-n)|low>>n > 1<<63-2 {
		if negative {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	q := int64(high<<(64-n) | low>>n)
	if negative { // the floor, and what lies above it
		if q = -q; rest != 0 {
			q, rest = q-1, 1<<n-rest
		}
	}
	if r.up(q, negative, rest, 1<<(n-1)) {
		q++
	}
	return q
}

// RequantizeSlice writes the codes of accumulators to dst: Requantize64(acc[i], m, zp, lo, hi), or, where a residual is given,
// Profile.RequantizeAdd64 with residual[i] and skip. Forms other than float ones take no residual.
func (s Scaling) RequantizeSlice(dst []int32, acc []int64, m Multiplier, residual []int32, skip Skip, zp, lo, hi int32) {
	if !s.Float() {
		for i, a := range acc {
			dst[i] = s.Requantize64(a, m, zp, lo, hi)
		}
		return
	}
	plain := s.Rounding == HalfEven && s.Form != FloatInside
	out, low := float32(1), lo
	switch s.Form {
	case FloatDivide:
		out = m.Out
	case FloatTwice:
		out, low = m.Out, max(lo, -127)
	}
	least, most := int64(low)-int64(zp), int64(hi)-int64(zp)
	for i, a := range acc {
		v := s.scaleFloat(float32(a), m)
		if residual != nil {
			v += float32(float32(residual[i]-skip.ZeroPoint) * skip.Scale)
		}
		if !plain || v != v {
			dst[i] = s.roundFloat(v, m, zp, lo, hi)
			continue
		}
		switch s.Form {
		case FloatDivide:
			v /= out
		case FloatTwice:
			v *= out
		}
		switch r := math.RoundToEven(float64(v)); {
		case r > 1<<40:
			dst[i] = hi
		case r < -1<<40:
			dst[i] = low
		default: // without branches on what differs by element
			dst[i] = int32(min(max(int64(r), least), most)) + zp
		}
	}
}
