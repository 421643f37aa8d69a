package qmath

import "math"

// rounder rounds float32 numbers to those of a Minifloat, ties to even, in the bits of float32: Encode with saturation and Decode in one.
//
// Adding 1.5*2^k and taking it away rounds a smaller number to a multiple of 2^(k-23), half to even. With 2^k the number's own power of
// two, or that of the smallest normal number, times 2^drop, what is left are the bits of the mantissa that the format has.
type rounder struct {
	drop    uint32  // mantissa bits of float32 that go, in the place of the exponent
	normal  uint32  // bits of the smallest normal number
	largest float32 // number
}

func newRounder(f Minifloat) rounder {
	m := &minifloats[f]
	return rounder{drop: uint32(23-m.man) << 23, normal: math.Float32bits(float32(math.Ldexp(1, 1-m.bias))), largest: f.Decode(m.largest)}
}

// fake writes number*s for the number nearest to src[i]/s to dst[i], saturated; NaN gives 0. It equals Codec.Fake bit for bit.
func (r rounder) fake(dst, src []float32, s float32) {
	const sign, exponent = 1 << 31, 0x7f800000
	dst = dst[:len(src)]
	for i, x := range src {
		v := x / s
		b := math.Float32bits(v)
		if v > r.largest {
			v = r.largest
		} else if v < -r.largest {
			v = -r.largest
		} else if v != v {
			v, b = 0, 0
		}
		at := max(math.Float32bits(v)&exponent, r.normal)
		magic := math.Float32frombits(at + r.drop | 1<<22)
		rounded := math.Float32bits(float32(v+magic)-magic)&^sign | b&sign
		dst[i] = float32(math.Float32frombits(rounded) * s)
	}
}

// rounders is indexed by NumberType.
var rounders = [...]rounder{FloatE4M3: newRounder(E4M3FN), FloatE5M2: newRounder(E5M2), FloatE2M1: newRounder(E2M1)}

// nf4Middle are the middles between neighbours of nf4.
var nf4Middle = func() (m [15]float64) {
	for i := range m {
		m[i] = (float64(nf4[i]) + float64(nf4[i+1])) / 2
	}
	return m
}()

// nf4Code is the code of the number nearest to v, of the smaller one where two are equally near.
func nf4Code(v float32) int32 {
	code, x := int32(0), float64(v)
	for step := int32(8); step > 0; step /= 2 {
		if x > nf4Middle[code+step-1] {
			code += step
		}
	}
	return code
}
