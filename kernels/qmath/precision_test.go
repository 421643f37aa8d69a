package qmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// nearestOf rounds by definition: the finite numbers of a format with e exponent and m mantissa bits around x, the nearer one,
// at a tie the one with an even last bit.
func nearestOf(x float64, expBits, manBits int) float64 {
	bias := 1<<(expBits-1) - 1
	maxExp, minExp := bias, 1-bias
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	_, e := math.Frexp(math.Abs(x)) // 2^(e-1) <= |x| < 2^e
	ulp := math.Ldexp(1, max(e-1, minExp)-manBits)
	k := x / ulp // exact: ulp is a power of two
	lo := math.Floor(k)
	switch d := k - lo; {
	case d > 0.5, d == 0.5 && math.Mod(lo, 2) != 0:
		lo++
	}
	r := lo * ulp
	if math.Abs(r) >= math.Ldexp(1, maxExp+1) {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return math.Copysign(r, x)
}

func TestPrecisionGolden(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		p       Precision
		x, want float32
	}{
		{FP16, 65504, 65504}, {FP16, 65519.996, 65504}, {FP16, 65520, inf}, {FP16, -65520, -inf}, {FP16, 1e30, inf},
		{FP16, 0x1p-24, 0x1p-24}, {FP16, 0x1p-25, 0}, {FP16, 0x1.000002p-25, 0x1p-24}, {FP16, 0x1.8p-24, 0x1p-23},
		{FP16, 1 + 0x1p-11, 1}, {FP16, 1 + 0x3p-11, 1 + 0x1p-9}, {FP16, 1 + 0x1.002p-11, 1 + 0x1p-10},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 0x3p-8, 1 + 0x1p-6}, {BF16, math.MaxFloat32, inf}, {BF16, 0x1p-149, 0},
		{TF32, 1 + 0x1p-11, 1}, {TF32, 65520, 65536}, {TF32, 0x1.ffcp127, 0x1.ffcp127}, {TF32, math.MaxFloat32, inf},
		{FP32, 0x1p-149, 0x1p-149},
	} {
		require.Equal(t, c.want, c.p.Round(c.x), "%s(%g)", c.p, c.x)
		require.Equal(t, -c.want, c.p.Round(-c.x), "%s(%g)", c.p, -c.x)
	}
	for _, p := range []Precision{FP32, TF32, FP16, BF16} {
		require.True(t, math.IsNaN(float64(p.Round(float32(math.NaN())))))
		require.Equal(t, inf, p.Round(inf))
		require.True(t, math.Signbit(float64(p.Round(float32(math.Copysign(0, -1))))), "the sign of zero stays")
	}
}

func TestPrecisionIsNearest(t *testing.T) {
	formats := map[Precision][2]int{TF32: {8, 10}, FP16: {5, 10}, BF16: {8, 7}}
	r := rand.New(rand.NewPCG(1, 1))
	for p, f := range formats {
		for range 40000 {
			x := math.Float32frombits(r.Uint32())
			if x != x {
				continue
			}
			want := float32(nearestOf(float64(x), f[0], f[1]))
			require.Equal(t, math.Float32bits(want), math.Float32bits(p.Round(x)), "%s(%g)", p, x)
			require.Equal(t, p.Round(x), p.Round(p.Round(x)), "rounding twice changes nothing")
		}
	}
}

func TestPrecisionText(t *testing.T) {
	for _, p := range []Precision{FP32, TF32, FP16, BF16} {
		b, err := p.MarshalText()
		require.NoError(t, err)
		var q Precision
		require.NoError(t, q.UnmarshalText(b))
		require.Equal(t, p, q)
	}
	_, err := Precision(9).MarshalText()
	require.ErrorContains(t, err, "9")
	var q Precision
	require.ErrorContains(t, q.UnmarshalText([]byte("fp8")), `unknown precision "fp8"`)
}
