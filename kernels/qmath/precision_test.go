package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row follows from the format's exponent range and mantissa bits; ties are exact halves of a unit.
func TestPrecisionRound(t *testing.T) {
	for _, c := range []struct {
		p       Precision
		x, want float32
	}{
		{FP32, 1 + 0x1p-23, 1 + 0x1p-23},
		{TF32, 1 + 0x1p-11, 1}, {TF32, 1 + 0x3p-11, 1 + 0x1p-9}, {TF32, 1 + 0x1.8p-11, 1 + 0x1p-10},
		{TF32, math.MaxFloat32, inf(1)},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 0x3p-8, 1 + 0x1p-6}, {BF16, -(1 + 0x1.8p-8), -(1 + 0x1p-7)}, {BF16, math.MaxFloat32, inf(1)},
		{FP16, 1 + 0x1p-11, 1}, {FP16, 1 + 0x3p-11, 1 + 0x1p-9}, {FP16, 65504, 65504}, {FP16, 65519.996, 65504}, {FP16, 65520, inf(1)},
		{FP16, -65520, inf(-1)}, {FP16, 0x1p-14, 0x1p-14}, {FP16, 0x1p-24, 0x1p-24}, {FP16, 0x1p-25, 0}, {FP16, 0x1.8p-25, 0x1p-24},
		{FP16, 0x3p-25, 0x1p-23}, {FP16, 0x1.ffep-15, 0x1p-14}, {FP16, inf(-1), inf(-1)},
	} {
		assert.Equal(t, c.want, c.p.Round(c.x), "%v of %b", c.p, c.x)
	}
	minus := float32(math.Copysign(0, -1))
	for p := FP32; p <= BF16; p++ {
		r := p.Round(float32(math.NaN()))
		assert.True(t, r != r, "%v of NaN", p)
		assert.True(t, math.Signbit(float64(p.Round(minus))), "%v of -0", p)
	}
	assert.True(t, math.Signbit(float64(FP16.Round(-0x1p-30))), "underflow keeps its sign")
}

// Rounding twice changes nothing, and nothing is ever nearer than what was returned.
func TestPrecisionNearest(t *testing.T) {
	for p := TF32; p <= BF16; p++ {
		xs := samples(grids[0])
		got := make([]float32, len(xs))
		p.RoundSlice(got, xs)
		for i, x := range xs {
			r := got[i]
			require.Equal(t, math.Float32bits(p.Round(x)), math.Float32bits(r))
			if x-x != 0 || r-r != 0 {
				continue
			}
			require.Equal(t, r, p.Round(r), "%v", p)
			// The neighbour on the other side of x, reached by going as far beyond x as r fell short of it.
			if y := p.Round(x + (x - r)); y-y == 0 {
				require.LessOrEqual(t, math.Abs(float64(r)-float64(x)), math.Abs(float64(y)-float64(x)), "%v of %g", p, x)
			}
		}
	}
}

func TestPrecisionText(t *testing.T) {
	for p := FP32; p <= BF16; p++ {
		text, err := p.MarshalText()
		require.NoError(t, err)
		var back Precision
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, p, back)
	}
	var p Precision
	assert.Error(t, p.UnmarshalText([]byte("fp8")))
}
