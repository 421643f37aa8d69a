package ref

import (
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// Codes here are bytes: those of int8 are moved up by 128, with their zero points.

// AddCodes is an addition of bytes by float32 arithmetic. For codes a and b,
//
//	v = fma(float32(a-ZA), FA, fma(float32(b-ZB), FB, K))                  if Fused
//	v = (float32(a-ZA)*FA + float32(b-ZB)*FB) * Factor / Divisor           else, every step rounded
//	code = round half to even(v < Lo: Lo; v > Hi: Hi) + Zero
//
// The first is what ONNX Runtime does, the second dequantizes, adds and quantizes; its Factor or its Divisor is 1.
type AddCodes struct {
	Fused           bool
	ZA, ZB          uint8
	FA, FB, K       float32
	Factor, Divisor float32
	Requantized
}

// Requantized is how a float32 becomes a byte: v limited to whole numbers Lo and Hi, rounded, plus Zero, which is to be 0 to 255.
type Requantized struct {
	Lo, Hi float32
	Zero   int32
}

// Check reports the first number that could make a result undefined.
func (r Requantized) Check() error {
	for _, v := range []float32{r.Lo, r.Hi} {
		if q := float64(v) + float64(r.Zero); !(q >= 0 && q <= 255) || q != math.Trunc(q) {
			return fmt.Errorf("limit %g with zero point %d is no code", v, r.Zero)
		}
	}
	if r.Lo > r.Hi {
		return fmt.Errorf("limits %g to %g", r.Lo, r.Hi)
	}
	return nil
}

func (r Requantized) code(v float32) uint8 {
	return uint8(int32(qmath.HalfEven.Round(float64(Limit(v, r.Lo, r.Hi)))) + r.Zero)
}

// Check reports the first number that could make a result undefined: factors are at most 2^95 in magnitude, a divisor is a positive
// normal number.
func (s *AddCodes) Check() error {
	for _, f := range []float32{s.FA, s.FB, s.K, s.Factor} {
		if !(f >= -0x1p95 && f <= 0x1p95) {
			return fmt.Errorf("factor %g is not within 2^95", f)
		}
	}
	if !s.Fused {
		if err := checkQuotient(s.Factor, s.Divisor); err != nil {
			return err
		}
	}
	return s.Requantized.Check()
}

// checkQuotient reports a factor and a divisor that can make NaN of a finite number.
func checkQuotient(factor, divisor float32) error {
	normal := func(x float32) bool { return x >= 0x1p-126 && x <= math.MaxFloat32 }
	if !normal(factor) || !normal(divisor) {
		return fmt.Errorf("factor %g and divisor %g are not positive normal numbers", factor, divisor)
	}
	return nil
}

// At returns the code of the sum of a and b.
func (s *AddCodes) At(a, b uint8) uint8 {
	x, y := float32(int(a)-int(s.ZA)), float32(int(b)-int(s.ZB))
	if s.Fused {
		return s.code(qmath.FMA(x, s.FA, qmath.FMA(y, s.FB, s.K)))
	}
	v := float32(x*s.FA) + float32(y*s.FB)
	return s.code(float32(v*s.Factor) / s.Divisor)
}

// ToCodes makes bytes of float32 numbers: code = round(x*Factor/Divisor, limited) + Zero, half to even or half away from zero. NaN
// gives Zero, limited.
type ToCodes struct {
	Factor, Divisor float32 // one of them is 1
	Away            bool    // from zero
	Requantized
}

// Check reports the first number that could make a result undefined.
func (s *ToCodes) Check() error {
	if err := checkQuotient(s.Factor, s.Divisor); err != nil {
		return err
	}
	return s.Requantized.Check()
}

// At returns the code of x.
func (s *ToCodes) At(x float32) uint8 {
	v := float32(x*s.Factor) / s.Divisor
	if v != v {
		v = 0
	}
	if s.Away {
		return uint8(int32(qmath.HalfAwayFromZero.Round(float64(Limit(v, s.Lo, s.Hi)))) + s.Zero)
	}
	return s.code(v)
}
