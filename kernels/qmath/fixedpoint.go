package qmath

import "math"

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
