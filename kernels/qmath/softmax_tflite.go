package qmath

import (
	"math"
	"math/bits"
)

const (
	diffBits = 5  // integer bits of the distance from the row's largest code
	sumBits  = 12 // integer bits of the sum of exp
)

// gemmlowp prepares TFLite's softmax (kernels/internal/reference/softmax.h).
func (s *Softmax) gemmlowp(p Profile) error {
	s.Form = SoftmaxGemmlowp
	most := float64(1<<31 - 1)
	if p.Form == SingleUp {
		most = 1<<30 - 1
	}
	f := min(float64(s.X.Scale)*(1<<(31-diffBits)), most)
	if s.N < 1 || s.N >= 1<<sumBits || f <= 1 {
		return scaleErrorf("profile %s: softmax of %d codes of scale %g is outside TFLite's fixed point (below %d codes, scale above 2^-26)",
			p.Name, s.N, s.X.Scale, 1<<sumBits)
	}
	s.M.M, s.M.Shift = significand(f)
	s.Radius = int32(math.Floor((1<<diffBits - 1) * math.Exp2(float64(31-diffBits-s.M.Shift))))
	return nil
}

func (s Softmax) gemmlowpRow(dst, src []int32, top int32) {
	sum := int32(0)
	for _, q := range src {
		if top-q <= s.Radius {
			sum += DivideByPowerOfTwo(expNegative(s.Scaling.scale(q-top, s.M)), sumBits)
		}
	}
	reciprocal, over := reciprocal(sum)
	// Where a long row is nearly uniform TFLite shifts by more than its function is defined for; what is left is below half a code.
	shift := over + 31 - 8
	for i, q := range src {
		v := int32(0)
		if top-q <= s.Radius && shift <= 31 {
			e := expNegative(s.Scaling.scale(q-top, s.M))
			v = DivideByPowerOfTwo(DoublingHighMul(reciprocal, e), shift)
		}
		dst[i] = min(max(v+s.Y.ZeroPoint, s.Y.QMin), s.Y.QMax)
	}
}

// expNegative returns exp(a) in Q0.31 for a <= 0 in Q5.26: the part below a quarter by a polynomial, the rest by a product of
// powers (gemmlowp's exp_on_negative_values).
func expNegative(a int32) int32 {
	if a == 0 {
		return math.MaxInt32
	}
	const quarter = 1 << (31 - diffBits - 2)
	low := a&(quarter-1) - quarter // in [-1/4, 0)
	result := expQuarter(low << diffBits)
	rest := low - a
	for i, power := range [...]int32{1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242} { // exp(-2^(i-2))
		if rest&(quarter<<i) != 0 {
			result = DoublingHighMul(result, power)
		}
	}
	return result
}

// expQuarter returns exp(a) for a in [-1/4, 0), both Q0.31: Taylor's series around -1/8.
func expQuarter(a int32) int32 {
	const (
		middle = 1895147668 // exp(-1/8)
		third  = 715827883  // 1/3
	)
	x := a + 1<<28
	x2 := DoublingHighMul(x, x)
	x3 := DoublingHighMul(x2, x)
	x4 := DoublingHighMul(x2, x2)
	tail := DivideByPowerOfTwo(DoublingHighMul(DivideByPowerOfTwo(x4, 2)+x3, third)+x2, 1)
	return middle + DoublingHighMul(middle, x+tail)
}

// reciprocal returns 1/x in Q0.31 for x > 0 in Q12.19, shifted left by over bits: 1/(1+f) of its normalised fraction by
// Newton's method (TFLite's GetReciprocal, gemmlowp's one_over_one_plus_x_for_x_in_0_1).
func reciprocal(x int32) (r, over int32) {
	const (
		c48over17 = 1515870810  // Q2.29
		c32over17 = -1010580540 // Q2.29, negative
		one       = 1 << 29     // Q2.29
	)
	lead := bits.LeadingZeros32(uint32(x))
	fraction := int32(uint32(x)<<lead - 1<<31)
	half := int32((int64(fraction) + math.MaxInt32 + 1) / 2) // (1+f)/2
	y := c48over17 + DoublingHighMul(half, c32over17)
	for range 3 {
		y += saturatingShift(DoublingHighMul(y, one-DoublingHighMul(half, y)), 2)
	}
	return saturatingShift(y, 1), sumBits - int32(lead)
}

func saturatingShift(x int32, n uint) int32 { return saturate32(int64(x) << n) }
