package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	int8Symmetric = Scheme{Symmetric: true, QMin: -128, QMax: 127}
	int8Affine    = Scheme{QMin: -128, QMax: 127}
	uint8Affine   = Scheme{QMin: 0, QMax: 255}
	int8Power     = Scheme{Symmetric: true, PowerOfTwo: true, QMin: -128, QMax: 127}
)

// The scales of ordinary ranges are decimal quotients: Go rounds the constant expression exactly, then once to float32.
func TestScaleFromRange(t *testing.T) {
	plus, minus := math.Inf(1), math.Inf(-1)
	for _, c := range []struct {
		name   string
		lo, hi float64
		s      Scheme
		scale  float32
		zp     int32
		out    Outcome
	}{
		{"symmetric", -1, 0.5, int8Symmetric, 1. / 127, 0, Ordinary},
		{"symmetric, positive values only", 2, 5, int8Symmetric, 5. / 127, 0, Ordinary},
		{"symmetric on an unsigned grid", -1, 1, Scheme{Symmetric: true, QMax: 255}, 1. / 127, 128, Ordinary},
		{"symmetric with the target's divisor", -1, 1, Scheme{Symmetric: true, QMin: -128, QMax: 127, Divisor: 127.5}, 1. / 127.5, 0, Ordinary},
		{"affine", -1, 2, uint8Affine, 3. / 255, 85, Ordinary},
		{"affine, widened to zero from above", 1, 2, uint8Affine, 2. / 255, 0, Ordinary},
		{"affine, widened to zero from below", -2, -1, uint8Affine, 2. / 255, 255, Ordinary},
		{"affine, signed", 0, 6, int8Affine, 6. / 255, -128, Ordinary},
		{"power of two, rounded up", -1, 1, int8Power, 1. / 64, 0, Ordinary},
		{"power of two that is one already", -127. / 16, 1, int8Power, 1. / 16, 0, Ordinary},
		{"power of two, zero point after it", -1, 2, Scheme{PowerOfTwo: true, QMax: 255}, 1. / 64, 64, Ordinary},

		{"zero, symmetric", 0, 0, int8Symmetric, 1, 0, ZeroRange},
		{"zero, affine", 0, 0, uint8Affine, 1, 0, ZeroRange},
		{"zero, affine on a grid without zero", 0, 0, Scheme{QMin: 10, QMax: 20}, 1, 10, ZeroRange},
		{"zero, symmetric unsigned", 0, 0, Scheme{Symmetric: true, QMax: 255}, 1, 128, ZeroRange},
		{"constant", 3, 3, uint8Affine, 3. / 255, 0, Ordinary},
		{"constant, negative", -3, -3, int8Affine, 3. / 255, 127, Ordinary},
		{"denormal", -1e-40, 1e-40, int8Symmetric, 0x1p-126, 0, Denormal},
		{"denormal, affine", 0, 1e-44, uint8Affine, 0x1p-126, 0, Denormal},
		{"scale just below the smallest normal", 0, 0x1p-126 * 126, int8Symmetric, 0x1p-126, 0, Denormal},
		{"scale at the smallest normal", 0, 0x1p-126 * 127, int8Symmetric, 0x1p-126, 0, Ordinary},
		{"infinite", minus, 1, int8Symmetric, math.MaxFloat32 / 127, 0, Infinite},
		{"infinite, both", minus, plus, uint8Affine, 2 * math.MaxFloat32 / 255, 128, Infinite},
		{"infinite, one point", plus, plus, uint8Affine, math.MaxFloat32 / 255, 0, Infinite},
		{"infinite below, one point", minus, minus, uint8Affine, math.MaxFloat32 / 255, 255, Infinite},
		{"beyond float32, two levels", minus, plus, Scheme{QMin: 0, QMax: 1}, math.MaxFloat32, 1, Infinite},
		{"power of two beyond float32", 0, plus, Scheme{Symmetric: true, PowerOfTwo: true, QMin: -1, QMax: 1}, 0x1p127, 0, Infinite},
	} {
		scale, zp, out, err := ScaleFromRange(c.lo, c.hi, c.s)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.scale, scale, c.name)
		assert.Equal(t, c.zp, zp, c.name)
		assert.Equal(t, c.out, out, c.name)
	}
}

func TestScaleFromRangeErrors(t *testing.T) {
	_, _, _, err := ScaleFromRange(math.NaN(), 1, int8Symmetric)
	assert.ErrorIs(t, err, ErrNaN)
	_, _, _, err = ScaleFromRange(0, math.NaN(), int8Symmetric)
	assert.ErrorIs(t, err, ErrNaN)
	_, _, _, err = ScaleFromRange(1, 0, int8Symmetric)
	assert.ErrorContains(t, err, "empty")
	_, _, _, err = ScaleFromRange(0, 1, Scheme{QMin: 5, QMax: 5})
	assert.ErrorContains(t, err, "empty")
	_, _, _, err = ScaleFromRange(0, 1, Scheme{Symmetric: true, QMin: -1, QMax: 0})
	assert.ErrorContains(t, err, "divides by 0")
}

// Whatever the range, its ends map to the ends of the grid within one step and zero is represented exactly.
func TestRangeFitsGrid(t *testing.T) {
	ranges := [][2]float64{{-1, 1}, {0, 6}, {-0.1, 300}, {-7e-30, 1e-30}, {-1e38, 3e38}, {5, 5}, {-2, -1}, {0, 1e-39}}
	for _, s := range []Scheme{int8Symmetric, int8Affine, uint8Affine, int8Power, {PowerOfTwo: true, QMin: -8, QMax: 7}} {
		for _, r := range ranges {
			scale, zp, _, err := ScaleFromRange(r[0], r[1], s)
			require.NoError(t, err)
			require.True(t, Representable(scale))
			g := Grid{Scale: scale, ZeroPoint: zp, QMin: s.QMin, QMax: s.QMax}
			require.GreaterOrEqual(t, zp, s.QMin)
			require.LessOrEqual(t, zp, s.QMax)
			assert.Zero(t, g.Fake(0))
			for _, x := range r {
				assert.InDelta(t, x, float64(g.Fake(float32(x))), float64(scale)*1.0001, "%v %v", s, r)
			}
		}
	}
}

func TestBias(t *testing.T) {
	assert.Equal(t, float32(0x1.47ae16p-06), BiasScale(0.1, 0.2), "the product of the stored scales, rounded once")
	for _, c := range []struct {
		b, scale float32
		q        int32
		fits     bool
	}{
		{1, 0.5, 2, true}, {1.25, 0.5, 2, true}, {1.75, 0.5, 4, true}, {-1.25, 0.5, -2, true},
		{2147483520, 1, 2147483520, true}, {2147483648, 1, math.MaxInt32, false}, {-2147483648, 1, math.MinInt32, true},
		{-3e9, 1, math.MinInt32, false}, {inf(1), 1, math.MaxInt32, false}, {float32(math.NaN()), 1, 0, false},
	} {
		q, fits := QuantizeBias(c.b, c.scale)
		assert.Equal(t, c.q, q, "%g / %g", c.b, c.scale)
		assert.Equal(t, c.fits, fits, "%g / %g", c.b, c.scale)
	}
}

func TestOutcomeString(t *testing.T) {
	assert.Equal(t, "zero range", ZeroRange.String())
	assert.Equal(t, "outcome(77)", Outcome(77).String())
}
