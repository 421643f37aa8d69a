package ref

import (
	"fmt"
	"math"

	"qwb/kernels/qmath"
)

// Scale turns sums into codes by float32 arithmetic. For the sum acc of column j and the residual code r at the same place,
// every step rounded to float32, none fused:
//
//	v = float32(acc) * Factor[j]
//	v = v + Bias[j]                                           if Bias is not nil
//	v = v + float32(r - ResidualZero) * ResidualScale         if there is a residual
//	v = v < Lo: Lo; v > Hi: Hi                                if Lo < Hi
//	v = v / Divisor                                           if Divisor is not 0
//	code = round half to even(v < QMin-Zero: QMin-Zero; v > QMax-Zero: QMax-Zero) + Zero
//
// With Factor (s_x*s_w)/s_y this is what the fused kernels of ONNX Runtime do; with Factor s_x*s_w and Divisor s_y it is
// the unfused QuantizeLinear of ONNX.
type Scale struct {
	Factor  []float32 // one per column
	Bias    []float32 // one per column, or nil
	Divisor float32
	Lo, Hi  float32 // both 0: no limits

	ResidualScale float32
	ResidualZero  uint8

	Zero, QMin, QMax uint8 // QMin and QMax both 0 mean 0 and 255
}

// Full returns s with the limits of the codes filled in, and limits -Inf and +Inf where there are none.
func (s Scale) Full() Scale {
	if s.QMin == 0 && s.QMax == 0 {
		s.QMax = 255
	}
	if s.Lo == 0 && s.Hi == 0 {
		s.Lo, s.Hi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	return s
}

// Check reports the first number that could make the result undefined: factors are at most 2^95 in magnitude, so that nothing
// overflows, a divisor is positive and normal, and limits are in order.
func (s Scale) Check() error {
	const most = 0x1p95
	bounded := func(x float32) bool { return x >= -most && x <= most }
	s = s.Full()
	for j, f := range s.Factor {
		if !bounded(f) {
			return fmt.Errorf("factor %g of column %d is not within 2^95", f, j)
		}
	}
	for j, b := range s.Bias {
		if !bounded(b) {
			return fmt.Errorf("bias %g of column %d is not within 2^95", b, j)
		}
	}
	switch {
	case s.Bias != nil && len(s.Bias) != len(s.Factor):
		return fmt.Errorf("%d biases for %d factors", len(s.Bias), len(s.Factor))
	case !bounded(s.ResidualScale):
		return fmt.Errorf("residual scale %g is not within 2^95", s.ResidualScale)
	case s.Divisor != 0 && !(s.Divisor >= 0x1p-126 && s.Divisor <= math.MaxFloat32):
		return fmt.Errorf("divisor %g is not a positive normal number", s.Divisor)
	case !(s.Lo <= s.Hi):
		return fmt.Errorf("limits %g to %g", s.Lo, s.Hi)
	case s.QMin > s.QMax:
		return fmt.Errorf("codes %d to %d", s.QMin, s.QMax)
	}
	return nil
}

// Code returns the code of acc in column j. s must be Full.
func (s *Scale) Code(acc int32, j int, residual uint8, hasResidual bool) uint8 {
	v := s.Real(acc, j, residual, hasResidual)
	if s.Divisor != 0 {
		v /= s.Divisor
	}
	v = Limit(v, float32(s.QMin)-float32(s.Zero), float32(s.QMax)-float32(s.Zero))
	return uint8(int(qmath.HalfEven.Round(float64(v))) + int(s.Zero))
}

// Real returns v before the division. s must be Full.
func (s *Scale) Real(acc int32, j int, residual uint8, hasResidual bool) float32 {
	v := float32(float32(acc) * s.Factor[j])
	if s.Bias != nil {
		v += s.Bias[j]
	}
	if hasResidual {
		v += float32(float32(int(residual)-int(s.ResidualZero)) * s.ResidualScale)
	}
	return Limit(v, s.Lo, s.Hi)
}
