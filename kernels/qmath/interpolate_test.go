package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	fine = Grid{Scale: 0x1p-12, QMin: math.MinInt16, QMax: math.MaxInt16} // [-8, 8)
	unit = Grid{Scale: 0x1p-15, QMin: math.MinInt16, QMax: math.MaxInt16} // [-1, 1)
)

// interpolated tabulates f.
func interpolated(x, y Grid, f func(float64) float64) Interpolated {
	points := InterpolationPoints(x)
	for i, v := range points {
		points[i] = float32(f(float64(v)))
	}
	return Interpolate(points, y)
}

// The entries by the formula, in the order of gemmlowp's generator and in float64: floor(v + 1/2) of magnitudes.
func TestInterpolateFormula(t *testing.T) {
	away := func(v float64) float64 { return math.Copysign(math.Floor(math.Abs(v)+0.5), v) }
	for name, f := range map[string]func(float64) float64{
		"tanh": math.Tanh,
		"exp":  math.Exp,
		"cube": func(v float64) float64 { return v * v * v / 512 },
	} {
		got := interpolated(fine, unit, f)
		off := 0
		for i := range 512 {
			at := func(k float64) float64 { return f((-32768+k*65535/512)/4096) * 65536 / (65535. / 32768) }
			begin := away(at(float64(i)))
			line := away((at(float64(i+1)) + begin) / 2)
			want := begin - away((line-away(at(float64(i)+0.5)))/2)
			want = min(max(want, -32768), 32767)
			require.InDelta(t, want, float64(got[i]), 1, "%s %d", name, i)
			if want != float64(got[i]) {
				off++ // float32 lies on the other side of a half
			}
		}
		require.Less(t, off, 8, name)
		require.Equal(t, min(max(away(f(32767./4096)*65536/(65535./32768)), -32768), 32767), float64(got[512]), name)
	}
}

// Points are 65535/512 codes apart, not 128: the line through 0 begins at half a code below. Worked out by hand.
func TestInterpolateByHand(t *testing.T) {
	id := interpolated(unit, unit, func(v float64) float64 { return v })
	require.EqualValues(t, math.MinInt16, id[0])
	// -32768 + 256*65535/512 = -0.5, times 65536/65535, is -0.500008: away from zero -1; the middle needs no move
	require.EqualValues(t, -1, id[256])
}

// Lines: base, next entry, halves upward, the ends of the codes, a difference that wraps.
func TestInterpolatedAt(t *testing.T) {
	var s Interpolated
	s[256], s[257], s[258] = 10, 11, -117
	s[0], s[1], s[511], s[512] = -300, 84, 1000, 1128
	for _, c := range [][2]int32{
		{0, 10}, {63, 10}, {64, 11}, {127, 11}, // (1*63+64)>>7 = 0, (1*64+64)>>7 = 1
		{128, 11}, {129, 10}, {192, -53}, {255, -116}, // slope -128
		{-32768, -300}, {-32767, -297}, {-32641, 81}, // slope 384: 3 for a code
		{32640, 1000}, {32767, 1127},
	} {
		require.Equal(t, c[1], s.At(c[0]), "%d", c[0])
	}
	s[256], s[257] = 32767, -32768 // their difference, -65535, is 1 in 16 bits
	require.EqualValues(t, 32767, s.At(1))
	require.EqualValues(t, -32768, s.At(64))
}

// What interpolation costs against the function, in output steps.
func TestInterpolatedIsClose(t *testing.T) {
	s := interpolated(fine, unit, math.Tanh)
	for q := int32(math.MinInt16); q <= math.MaxInt16; q++ {
		exact := math.Tanh(float64(q)/4096) * 32768
		// Points are up to half a code off, 4 steps where tanh is steepest; the curve is up to h^2/8 * max|f''| from its line, 3.1 with
		// h = 1/32, half of which the move of the middle takes away; and two roundings.
		require.InDelta(t, exact, float64(s.At(q)), 4+1.6+1, "%d", q)
	}
}

func TestInterpolates(t *testing.T) {
	for _, p := range Profiles() {
		require.Equal(t, p.Family == TFLite, p.Interpolates(fine, unit), p.Name)
	}
	p := named(t, "tflite2")
	narrow := Grid{Scale: 1, QMin: -128, QMax: 127}
	require.False(t, p.Interpolates(narrow, unit))
	require.False(t, p.Interpolates(fine, narrow))
	require.False(t, p.Interpolates(Grid{Scale: 1, QMax: 65535}, unit))
	require.False(t, p.Interpolates(Grid{Scale: 1, ZeroPoint: 5, QMin: -32768, QMax: 32767}, unit))
}
