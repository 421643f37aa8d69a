package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The fast rounding is Encode and Decode, bit for bit: over every exponent, the middles between numbers and their neighbours.
func TestFastRoundingIsTheCodec(t *testing.T) {
	for _, kind := range NumberTypes() {
		for _, scale := range []float32{1, 0.5, 0.0123, 3e-39, 1e30} {
			c := Codec{Format: FormatOf(kind), Scale: scale}
			x := everyExponent()
			for code := range int32(1) << c.Bits {
				for other := range int32(1) << c.Bits {
					mid := (c.Dequantize(code) + c.Dequantize(other)) / 2
					x = append(x, mid, math.Nextafter32(mid, 9e9), math.Nextafter32(mid, -9e9))
				}
			}
			x = append(x, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)))
			got := make([]float32, len(x))
			c.FakeSlice(got, x)
			for i, v := range x {
				require.Equal(t, math.Float32bits(c.Fake(v)), math.Float32bits(got[i]), "%s of %g at scale %g", kind, v, scale)
			}
		}
	}
}

func BenchmarkFake(b *testing.B) {
	x, dst := make([]float32, 1<<14), make([]float32, 1<<14)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)*7) * float64(i%97))
	}
	for _, c := range []Codec{{Format: IntegerFormat(8, false)}, {Format: FormatOf(FloatE4M3)}, {Format: FormatOf(FloatE5M2)},
		{Format: FormatOf(FloatE2M1)},
		{Format: FormatOf(BookNF4)}} {
		c.Scale = 0.1
		b.Run(c.FormatName(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				c.FakeSlice(dst, x)
			}
		})
	}
}
