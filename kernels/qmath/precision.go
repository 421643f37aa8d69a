package qmath

import (
	"fmt"
	"math"
)

// Precision is a floating-point format narrower than or equal to float32, as hardware uses it inside float operators.
type Precision uint8

const (
	FP32 Precision = iota // no rounding
	TF32                  // 8 exponent bits, 10 mantissa bits: what tensor cores read of a float32 factor
	FP16                  // IEEE binary16: 5 exponent bits, 10 mantissa bits, subnormals, overflow to infinity
	BF16                  // bfloat16: 8 exponent bits, 7 mantissa bits
)

var precisionNames = [...]string{"fp32", "tf32", "fp16", "bf16"}

func (p Precision) String() string {
	if int(p) < len(precisionNames) {
		return precisionNames[p]
	}
	return fmt.Sprintf("precision(%d)", uint8(p))
}

// MarshalText and UnmarshalText use the names of String.
func (p Precision) MarshalText() ([]byte, error) {
	if int(p) >= len(precisionNames) {
		return nil, fmt.Errorf("no precision has number %d", uint8(p))
	}
	return []byte(precisionNames[p]), nil
}

func (p *Precision) UnmarshalText(b []byte) error {
	for i, name := range precisionNames {
		if name == string(b) {
			*p = Precision(i)
			return nil
		}
	}
	return fmt.Errorf("unknown precision %q", b)
}

// Round returns the number of format p nearest to x, ties to even. Values beyond the format's largest finite number by half a
// unit or more become infinite. NaN stays NaN.
func (p Precision) Round(x float32) float32 {
	switch p {
	case TF32:
		return dropBits(x, 13)
	case BF16:
		return dropBits(x, 16)
	case FP16:
		return roundHalf(x)
	}
	return x
}

// RoundSlice writes Round(src[i]) to dst[i]; dst may be src. len(dst) must be at least len(src).
func (p Precision) RoundSlice(dst, src []float32) {
	if p == FP32 {
		copy(dst, src)
		return
	}
	for i, x := range src {
		dst[i] = p.Round(x)
	}
}

// dropBits rounds the mantissa to 23-n bits. A carry runs into the exponent, which is what rounding up to the next power of
// two, and past the largest number to infinity, means.
func dropBits(x float32, n uint) float32 {
	b := math.Float32bits(x)
	if b&0x7f800000 == 0x7f800000 {
		return x // infinities and NaN
	}
	half := uint32(1) << (n - 1)
	b += half - 1 + b>>n&1
	return math.Float32frombits(b &^ (1<<n - 1))
}

func roundHalf(x float32) float32 {
	a := float32(math.Abs(float64(x)))
	if !(a < 0x1p-14) {
		r := dropBits(x, 13)
		if r >= 65536 || r <= -65536 {
			return float32(math.Inf(int(math.Copysign(1, float64(x)))))
		}
		return r // NaN and infinities as well
	}
	// Subnormals of binary16 are the multiples of 2^-24; the float64 quotient is exact.
	return float32(math.Copysign(math.RoundToEven(float64(a)*0x1p24)*0x1p-24, float64(x)))
}
