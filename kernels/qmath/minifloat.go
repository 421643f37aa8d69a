package qmath

import "math"

// Minifloat is a floating-point format of 4 to 16 bits that tensors are stored in: a sign, an exponent and a mantissa with
// subnormals. Float8 formats are those of arXiv:2209.05433 (E4M3FN, E5M2) and arXiv:2206.02915 (FNUZ), E2M1 that of the OCP
// Microscaling specification. The unsigned E8M0 has functions of its own.
type Minifloat uint8

const (
	Half     Minifloat = iota // IEEE binary16
	Brain                     // bfloat16
	E4M3FN                    // no infinity, one NaN per sign
	E4M3FNUZ                  // no infinity, no negative zero, its place is NaN
	E5M2                      // as IEEE formats are
	E5M2FNUZ                  // no infinity, no negative zero, its place is NaN
	E2M1                      // neither infinity nor NaN
)

// minifloats is indexed by Minifloat: widths of exponent and mantissa, exponent bias, and the codes without sign of the largest
// number, of NaN, and of what lies beyond the largest number.
var minifloats = [...]struct {
	exp, man, bias     int
	largest, nan, over uint16
	noMinusZero        bool
}{
	Half:     {5, 10, 15, 0x7bff, 0x7e00, 0x7c00, false},
	Brain:    {8, 7, 127, 0x7f7f, 0x7fc0, 0x7f80, false},
	E4M3FN:   {4, 3, 7, 0x7e, 0x7f, 0x7f, false},
	E4M3FNUZ: {4, 3, 8, 0x7f, 0x80, 0x80, true},
	E5M2:     {5, 2, 15, 0x7b, 0x7e, 0x7c, false},
	E5M2FNUZ: {5, 2, 16, 0x7f, 0x80, 0x80, true},
	E2M1:     {2, 1, 1, 0x7, 0x8, 0x7, false},
}

// Encode returns the code of the number nearest to x, ties to even. A number that rounds beyond the largest one becomes the
// largest one with saturate; without it, it becomes infinity, or NaN in a format without infinity. E2M1 always saturates, and
// encodes NaN as -0.
func (f Minifloat) Encode(x float64, saturate bool) uint16 {
	m := &minifloats[f]
	sign := uint16(0)
	if math.Signbit(x) {
		sign = 1 << (m.exp + m.man)
	}
	if x != x {
		return m.nan | sign
	}
	code := m.over
	if a := math.Abs(x); a == 0 {
		code = 0
	} else if !math.IsInf(a, 0) {
		_, e := math.Frexp(a) // a is in [2^(e-1), 2^e)
		e = max(e-1, 1-m.bias)
		// The scaled number is exact. One that rounds up to the next power of two carries into the exponent.
		units := math.RoundToEven(math.Ldexp(a, m.man-e))
		if wide := float64((e+m.bias-1)<<m.man) + units; wide <= float64(m.largest) {
			code = uint16(wide)
		}
	}
	switch {
	case code == m.over && saturate:
		code = m.largest
	case m.noMinusZero && (code == 0 || code == m.nan):
		return code
	}
	return code | sign
}

// Decode returns the number that a code stands for, exactly.
func (f Minifloat) Decode(code uint16) float32 {
	m := &minifloats[f]
	bits := m.exp + m.man
	sign, abs := code>>bits&1, code&(1<<bits-1)
	v := math.NaN()
	switch exp, man := int(abs>>m.man), float64(abs&(1<<m.man-1)); {
	case m.noMinusZero && code == m.nan:
		return float32(v)
	case f == E2M1 || m.noMinusZero || abs <= m.largest:
		if exp > 0 {
			man, exp = man+float64(int(1)<<m.man), exp-1
		}
		v = math.Ldexp(man, exp+1-m.bias-m.man)
	case m.over != m.nan && abs == m.over:
		v = math.Inf(1)
	}
	if sign != 0 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// HalfBits is Half.Encode of a float32 without saturation, and faster.
func HalfBits(x float32) uint16 {
	r := FP16.Round(x)
	bits := math.Float32bits(r)
	sign, abs := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs == 0x7f800000:
		return sign | 0x7c00
	case abs >= 0x38800000: // normal in binary16
		return sign | uint16(abs>>13-112<<10)
	}
	return sign | uint16(math.Float32frombits(abs)*0x1p24)
}

// FromHalf is Half.Decode, and faster. NaNs keep their payload.
func FromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, int(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | frac<<13)
}

// BrainBits is Brain.Encode of a float32 without saturation, and faster.
func BrainBits(x float32) uint16 {
	if x != x { // a payload in the low bits alone must not become infinity
		return uint16(math.Float32bits(x)>>16) | 0x40
	}
	return uint16(math.Float32bits(BF16.Round(x)) >> 16)
}

// FromBrain is Brain.Decode, and faster. NaNs keep their payload.
func FromBrain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// nanE8M0 is the one code that is no power of two.
const nanE8M0 = 255

// EncodeE8M0 returns the code of a power of two, 2^(code-127), for x: the next one that is not smaller (Up), not larger (Down), or
// the nearest with ties up (HalfUp). With saturate what lies below or above the powers takes the nearest of them, infinity the
// largest; without it is NaN, as NaN and negative numbers always are.
func EncodeE8M0(x float64, r Rounding, saturate bool) uint8 {
	if x != x || x < 0 {
		return nanE8M0
	}
	code := 255
	switch {
	case x == 0:
		code = -1
	case !math.IsInf(x, 1):
		frac, e := math.Frexp(x) // x is frac*2^e with frac in [0.5, 1)
		code = e - 1 + 127
		if r == Up && frac > 0.5 || r == HalfUp && frac >= 0.75 {
			code++
		}
	}
	if (code < 0 || code > 254) && !saturate {
		return nanE8M0
	}
	return uint8(min(max(code, 0), 254))
}

// DecodeE8M0 returns 2^(code-127), NaN for code 255.
func DecodeE8M0(code uint8) float32 {
	if code == nanE8M0 {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(code)-127))
}
