package qmath

import "math"

// Requantize returns the code of accumulator acc: scaled, rounded, moved by the zero point zp and clamped to [lo, hi]. A
// fused activation is part of lo and hi. The int32 bias is part of acc, the float one part of m.
func (p Profile) Requantize(acc int32, m Multiplier, zp, lo, hi int32) int32 {
	if p.Float() {
		return p.roundFloat(p.scaleFloat(float32(acc), m), m, zp, lo, hi)
	}
	return clamp64(int64(p.scale(acc, m))+int64(zp), lo, hi)
}

// Skip is a prepared residual: what RequantizeAdd adds to the scaled accumulator.
type Skip struct {
	Scale     float32 // of one step of the residual, in units of acc*Multiplier.Scale
	ZeroPoint int32
}

// PrepareSkip returns the residual with codes on grid g for a layer whose output has scale y. Only profiles that FusesAdd
// have it.
func (p Profile) PrepareSkip(g Grid, y float32) Skip {
	s := Skip{Scale: g.Scale, ZeroPoint: g.ZeroPoint}
	if p.Form == FloatAfter {
		s.Scale = g.Scale / y
	}
	return s
}

// RequantizeAdd is Requantize with the residual code q added, dequantized, before the one rounding.
func (p Profile) RequantizeAdd(acc int32, m Multiplier, q int32, s Skip, zp, lo, hi int32) int32 {
	v := p.scaleFloat(float32(acc), m) + float32(float32(q-s.ZeroPoint)*s.Scale)
	return p.roundFloat(v, m, zp, lo, hi)
}

// Accumulated returns the float32 value of an accumulator whose output is not quantized: float32(acc)*float32(x*w) + bias.
func (c Channel) Accumulated(acc int32) float32 {
	return float32(float32(acc)*float32(c.X*c.W)) + c.Bias
}

// scaleFloat is the float32 value before Out, rounding and zero point.
func (p Profile) scaleFloat(acc float32, m Multiplier) float32 {
	v := float32(acc * m.Scale)
	if p.FloatBias() {
		v += m.Bias
	}
	return v
}

func (p Profile) roundFloat(v float32, m Multiplier, zp, lo, hi int32) int32 {
	switch p.Form {
	case FloatDivide:
		v /= m.Out
	case FloatTwice:
		v *= m.Out
		lo = max(lo, -127)
	case FloatInside:
		return clampFloat(HalfEven.Round(float64(v+float32(zp))), 0, lo, hi)
	}
	return clampFloat(p.Rounding.Round(float64(v)), zp, lo, hi)
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
func (p Profile) scale(acc int32, m Multiplier) int32 {
	switch p.Form {
	case DoubleUpAway:
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
		return saturate32(p.Rounding.shift(int64(acc), int(m.Shift)-1))
	}
	t := 31 - m.Shift
	return int32((int64(acc)*int64(m.M) + 1<<(t-1)) >> t)
}

func saturate32(v int64) int32 { return clamp64(v, math.MinInt32, math.MaxInt32) }

// DoublingHighMul returns a*b/2^31 rounded half up: gemmlowp's SaturatingRoundingDoublingHighMul, SRDHM for short. The one
// product that does not fit, of the two most negative numbers, gives the largest.
func DoublingHighMul(a, b int32) int32 {
	if a == math.MinInt32 && b == math.MinInt32 {
		return math.MaxInt32
	}
	ab := int64(a) * int64(b)
	nudge := int64(1 << 30)
	if ab < 0 {
		nudge = 1 - nudge
	}
	return int32((ab + nudge) / (1 << 31)) // truncating
}

// DivideByPowerOfTwo returns x/2^n rounded half away from zero, n in [0, 31]: gemmlowp's RoundingDivideByPOT, RDPOT for short.
func DivideByPowerOfTwo(x, n int32) int32 {
	mask := int32(1)<<n - 1
	threshold := mask >> 1
	if x < 0 {
		threshold++
	}
	q := x >> n
	if x&mask > threshold {
		q++
	}
	return q
}

// shift returns x * 2^n rounded by r, exactly, for n in [-62, 31]; results beyond int64 saturate.
func (r Rounding) shift(x int64, n int) int64 {
	if n >= 0 {
		if v := x << n; v>>n == x {
			return v
		}
		if x < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	q := x >> -n
	rest := x - q<<-n // in [0, 2^-n)
	half := int64(1) << (-n - 1)
	if r.up(q, x < 0, rest, half) {
		q++
	}
	return q
}

// up decides whether floor q becomes q+1, given the rest above the floor and what half a step is.
func (r Rounding) up(q int64, negative bool, rest, half int64) bool {
	switch {
	case rest == 0 || r == Down:
		return false
	case r == Up:
		return true
	case rest != half:
		return rest > half
	}
	switch r {
	case HalfUp:
		return true
	case HalfDown:
		return false
	case HalfTowardsZero:
		return negative
	case HalfAwayFromZero:
		return !negative
	}
	return q&1 == 1
}
