package qmath

import "math"

// A deviation is the bound of a prepared operator against real arithmetic on the stored float32 scales, in steps of its
// output: its code is the rounding of some number within that distance of the exact one (which way an exact half goes
// apart). Where a bound is below 1/2, the code can differ from that of any other rounding of the exact number by one step
// only, and only within the bound of a rounding boundary. Codes that are clamped are covered by the bound as well.
//
// half is 2^-24, the relative error of one float32 operation; bounds are sums of such errors, and the hundredth that
// slack adds covers their products.
const (
	half  = 0x1p-24
	slack = 1.01
)

// Deviation returns the deviation of Requantize for accumulators up to acc in magnitude, with codes that are clamped to
// [lo, hi]. It covers the preparation of m.
func (s Scaling) Deviation(acc int64, m Multiplier, zp, lo, hi int32) float64 {
	if s.Form == ShiftOnly {
		return 0
	}
	v := limited(math.Abs(float64(acc))*s.factor(m), zp, lo, hi)
	bias := math.Abs(float64(m.Bias)) * s.perBias(m)
	if bias != 0 { // acc*Scale and Bias may cancel
		v += 2 * bias
	}
	if m.Double != 0 {
		return half * v * slack // of float64 less, but M and Shift may be what is looked at
	}
	switch s.Form {
	case DoubleUpAway, DoubleUpUp:
		return half*v*slack + s.second(m)
	case SingleAny:
		return half*2*v*slack + s.coarse(acc, m)*slack
	case FloatInside:
		return half * (4*v + v + math.Abs(float64(zp))) * slack // two for the factor, the accumulator, the product; the sum
	case FloatAfter:
		return half * (4*v + 2*bias + v) * slack
	case FloatDivide:
		return half * (3*v + 2*v) * slack // product of scales, accumulator, product; sum and quotient
	case FloatTwice:
		return half * (6*v + 4*v) * slack // d has four operations, accumulator, product; sum, 1/s_y, product
	}
	// One rounding: the float32 product of scales, or two of them (rndnu), and the 31 bits of M.
	return half * 2 * v * slack
}

// Deviation64 is Deviation for Requantize64, where TFLite's form keeps 15 bits of M.
func (s Scaling) Deviation64(acc int64, m Multiplier, zp, lo, hi int32) float64 {
	if m.Double == 0 && (s.Form == DoubleUpAway || s.Form == SingleUp) {
		return 0x1p-15 * limited(math.Abs(float64(acc))*s.factor(m), zp, lo, hi) * slack
	}
	return s.Deviation(acc, m, zp, lo, hi)
}

// second is what the first of two roundings can be off: 2^-(r+1) for right shift r.
func (s Scaling) second(m Multiplier) float64 {
	if s.Form > DoubleUpUp || m.Shift >= 0 {
		return 0
	}
	return math.Exp2(float64(m.Shift - 1))
}

// factor is the real factor from accumulator to steps.
func (s Scaling) factor(m Multiplier) float64 {
	if !s.Float() {
		return math.Ldexp(float64(m.M), int(m.Shift)-31)
	}
	return float64(m.Scale) * s.perBias(m)
}

// perBias is the number of steps of one unit of Multiplier.Bias.
func (s Scaling) perBias(m Multiplier) float64 {
	switch s.Form {
	case FloatDivide:
		return 1 / float64(m.Out)
	case FloatTwice:
		return float64(m.Out)
	}
	return 1
}

// limited is the largest magnitude, in steps from the zero point, that matters: beyond the clamp errors have no effect as
// long as they are below a step.
func limited(v float64, zp, lo, hi int32) float64 {
	return min(v, math.Max(math.Abs(float64(lo)-float64(zp)), math.Abs(float64(hi)-float64(zp)))+2)
}

// reach is how far a code can be from the zero point, in steps.
func (g Grid) reach() float64 {
	return math.Max(float64(g.QMax)-float64(g.ZeroPoint), float64(g.ZeroPoint)-float64(g.QMin))
}

// limit is limited for results on grid g.
func (g Grid) limit(v float64) float64 { return limited(v, g.ZeroPoint, g.QMin, g.QMax) }

// Deviation returns the deviation of At: XNNPACK's 8 fractional bits of the factor dominate theirs.
func (r Rescale) Deviation() float64 {
	f := float64(r.X.Scale) / float64(r.Y.Scale)
	v := r.Y.limit(r.X.reach() * f)
	switch {
	case r.Float:
		return half * 4 * v * slack
	case r.Eighth != 0:
		return r.X.reach()*0x1p-9 + half*v*slack
	}
	return r.Scaling.Deviation(int64(r.X.reach()), r.M, r.Y.ZeroPoint, r.Y.QMin, r.Y.QMax)
}

// Deviation returns the deviation of At.
func (m Product) Deviation() float64 {
	if m.Float {
		f := float64(m.A.Scale) * float64(m.B.Scale) / float64(m.Y.Scale)
		return half * 6 * m.Y.limit(m.A.reach()*m.B.reach()*f) * slack
	}
	return m.Scaling.Deviation(int64(m.A.reach()*m.B.reach()), m.M, m.Y.ZeroPoint, m.Y.QMin, m.Y.QMax)
}

// Deviation returns the deviation of At. TVM's form rounds each operand: half a step, so that any code within one step of the
// exact one is within it, and the second roundings of tvm-a64.
func (s Sum) Deviation() float64 {
	a := s.A.reach() * float64(s.A.Scale) / float64(s.Y.Scale)
	b := s.B.reach() * float64(s.B.Scale) / float64(s.Y.Scale)
	switch s.Form {
	case SumShifted:
		unit := s.Scaling.factor(s.MY) // of the sum, in steps
		each := 1 + s.Scaling.second(s.MA) + s.Scaling.second(s.MB)
		return each*unit + s.Scaling.second(s.MY) + half*(a+b)*slack + s.narrowed()
	case SumEach:
		return 0.5 + s.Scaling.second(s.MA) + s.Scaling.second(s.MB) + half*2*(a+b)*slack + s.narrowed()
	case SumAligned:
		if s.MA.M&(s.MA.M-1) == 0 && s.MB.M&(s.MB.M-1) == 0 {
			return half * (a + b) * slack
		}
		return math.Ldexp(s.A.reach()+s.B.reach(), -s.Right-1) + half*(a+b)*slack
	case SumFused:
		// K and the terms are of the size of the codes, not of their distances from the zero points.
		a += math.Abs(float64(s.A.ZeroPoint)) * float64(s.RA)
		b += math.Abs(float64(s.B.ZeroPoint)) * float64(s.RB)
		return half * (6*(a+b) + 2*math.Abs(float64(s.Y.ZeroPoint))) * slack
	}
	return half * 5 * (a + b) * slack
}

// narrowed is how far multipliers of fewer bits than float32 has can move the sum, in steps.
func (s Sum) narrowed() float64 {
	if s.Scaling.Bits == 0 {
		return 0
	}
	a, b := s.A.reach(), s.B.reach()
	if s.Form == SumEach {
		y := float64(s.Y.Scale)
		return slack * (a*s.Scaling.rounded(float64(s.A.Scale)/y, s.MA) + b*s.Scaling.rounded(float64(s.B.Scale)/y, s.MB))
	}
	twice := 2 * max(float64(s.A.Scale), float64(s.B.Scale))
	fine := math.Ldexp(1, s.Left)
	terms := a*s.Scaling.rounded(float64(s.A.Scale)/twice, s.MA) + b*s.Scaling.rounded(float64(s.B.Scale)/twice, s.MB)
	sum := a*s.Scaling.factor(s.MA) + b*s.Scaling.factor(s.MB)
	return slack * fine * (terms*s.Scaling.factor(s.MY) + sum*s.Scaling.rounded(twice/(fine*float64(s.Y.Scale)), s.MY))
}

// Deviation returns the deviation of At, or AtFloat. TVM's form rounds every term and truncates: 1 or a little
// more, which allows a code two steps away.
func (a Average) Deviation() float64 {
	v := a.Y.limit(a.X.reach() * float64(a.X.Scale) / float64(a.Y.Scale))
	switch a.Form {
	case AverageFloat:
		return half * 5 * v * slack
	case AverageSame, AverageExact:
		return 0
	case AverageEach:
		return 1 + a.Each.Deviation()
	case AverageTerms:
		terms := a.X.reach() * float64(a.X.Scale) / float64(a.Y.Scale) // they may cancel
		return half * (float64(a.N+4)*terms + math.Abs(float64(a.Y.ZeroPoint))) * slack
	}
	return a.Scaling.Deviation(int64(a.X.reach())*int64(a.N), a.M, a.Y.ZeroPoint, a.Y.QMin, a.Y.QMax)
}

// Deviation returns the deviation of Row. That of TFLite's form is of its fixed-point exp and sum, 2^-20 each term; ONNX
// Runtime's rounds 1/s_y down.
func (s Softmax) Deviation() float64 {
	per, n := 1/float64(s.Y.Scale), float64(s.N)
	switch s.Form {
	case SoftmaxGemmlowp:
		return per*(n+1)*0x1p-20 + per*0x1p-22*float64(s.X.reachAll())*float64(s.X.Scale) + 0x1p-10
	case SoftmaxMLAS:
		return per - float64(s.PerOutput) + half*(n+6)*per*slack
	}
	return per*(n+1)*0x1p-24*slack + 0x1p-17
}

// reachAll is the distance between the ends of the grid.
func (g Grid) reachAll() int64 { return int64(g.QMax) - int64(g.QMin) }
