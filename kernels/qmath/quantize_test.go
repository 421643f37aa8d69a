package qmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func inf(sign int) float32 { return float32(math.Inf(sign)) }

func TestQuantizeGolden(t *testing.T) {
	int8 := Grid{Scale: 0.1, QMin: -128, QMax: 127}
	uint8 := Grid{Scale: 0.5, ZeroPoint: 3, QMin: 0, QMax: 255}
	for _, c := range []struct {
		name string
		g    Grid
		x    float32
		q    int32
	}{
		// 0.35/0.1 in float32 is 3.5 exactly (real quotient of the stored numbers: 3.49999989), so the tie goes to 4.
		{"the quotient is rounded to float32 first", int8, 0.35, 4},
		{"tie to even, down", int8, 0.25, 2},
		{"the zero point is added after rounding", uint8, 0.25, 3},
		{"odd zero point does not move the tie", uint8, 0.75, 5},
		{"saturates", int8, 100, 127},
		{"saturates below", int8, -100, -128},
		{"+Inf", int8, inf(1), 127},
		{"-Inf", int8, inf(-1), -128},
		{"-Inf with a zero point", uint8, inf(-1), 0},
		{"NaN", uint8, float32(math.NaN()), 3},
		{"-0", uint8, float32(math.Copysign(0, -1)), 3},
		{"largest float32", int8, math.MaxFloat32, 127},
		{"int32 grid with a zero point at its end", Grid{Scale: 1, ZeroPoint: math.MaxInt32, QMin: math.MinInt32, QMax: math.MaxInt32}, -5,
			math.MaxInt32 - 5},
	} {
		assert.Equal(t, c.q, c.g.Quantize(c.x), c.name)
	}
	assert.Equal(t, float32(-1<<32), Grid{Scale: 1, ZeroPoint: math.MaxInt32}.Dequantize(math.MinInt32), "differences beyond int32")
}

// quantizeExactly is the definition in rational arithmetic: nearest float32 to x/s, half to even, add, clamp.
func quantizeExactly(g Grid, x float32) int32 {
	quotient, _ := new(big.Rat).Quo(new(big.Rat).SetFloat64(float64(x)), new(big.Rat).SetFloat64(float64(g.Scale))).Float32()
	if math.IsInf(float64(quotient), 0) {
		return map[bool]int32{true: g.QMax, false: g.QMin}[quotient > 0]
	}
	v := new(big.Rat).SetFloat64(float64(quotient))
	floor := new(big.Int).Div(v.Num(), v.Denom()) // Euclidean: rounds down for a positive denominator
	switch rest := new(big.Rat).Sub(v, new(big.Rat).SetInt(floor)); rest.Cmp(big.NewRat(1, 2)) {
	case 1:
		floor.Add(floor, big.NewInt(1))
	case 0:
		if floor.Bit(0) == 1 {
			floor.Add(floor, big.NewInt(1))
		}
	}
	floor.Add(floor, big.NewInt(int64(g.ZeroPoint)))
	if floor.Cmp(big.NewInt(int64(g.QMin))) < 0 {
		return g.QMin
	}
	if floor.Cmp(big.NewInt(int64(g.QMax))) > 0 {
		return g.QMax
	}
	return int32(floor.Int64())
}

var grids = []Grid{
	{Scale: 0.1, QMin: -128, QMax: 127},
	{Scale: 6. / 255, QMin: 0, QMax: 255},
	{Scale: 1, ZeroPoint: 128, QMin: 0, QMax: 255},
	{Scale: 0x1p-126, ZeroPoint: -3, QMin: -8, QMax: 7},
	{Scale: 3e38, ZeroPoint: 255, QMin: 0, QMax: 255},
	{Scale: 1e-3, QMin: -32768, QMax: 32767},
	{Scale: 0.7, ZeroPoint: 1 << 20, QMin: -1 << 20, QMax: 1 << 20},
	{Scale: 0.02, QMin: -127, QMax: 127},
}

// samples covers every class and exponent of float32 with both signs, values around each grid step and its ties, and noise.
func samples(g Grid) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	var xs []float32
	for e := range uint32(256) {
		for _, m := range []uint32{0, 1, 1 << 22, 1<<23 - 1, rng.Uint32N(1 << 23), rng.Uint32N(1 << 23)} {
			x := math.Float32frombits(e<<23 | m)
			xs = append(xs, x, -x)
		}
	}
	for k := range 300 {
		for _, half := range []float64{0, 0.5} {
			x := float32((float64(k) + half) * float64(g.Scale))
			for _, y := range []float32{x, math.Nextafter32(x, inf(1)), math.Nextafter32(x, inf(-1))} {
				xs = append(xs, y, -y)
			}
		}
	}
	for range 2000 {
		xs = append(xs, float32(rng.NormFloat64())*g.Scale*100)
	}
	return xs
}

func TestQuantizeExactly(t *testing.T) {
	for _, g := range grids {
		for _, x := range samples(g) {
			if x-x == 0 { // finite
				require.Equal(t, quantizeExactly(g, x), g.Quantize(x), "%+v of %g", g, x)
			}
		}
	}
}

func TestFakeSliceEqualsFake(t *testing.T) {
	wide := Grid{Scale: 0.5, QMin: math.MinInt32, QMax: math.MaxInt32} // too wide for float32 arithmetic
	away := Grid{Scale: 0.5, QMin: -128, QMax: 127, Rounding: HalfAwayFromZero}
	for _, g := range append([]Grid{wide, away}, grids...) {
		xs := samples(g)
		got := make([]float32, len(xs))
		g.FakeSlice(got, xs)
		for i, x := range xs {
			require.Equal(t, math.Float32bits(g.Fake(x)), math.Float32bits(got[i]), "%+v of %g", g, x)
		}
		g.FakeSlice(xs, xs)
		require.Equal(t, got, xs, "in place")
	}
	assert.False(t, wide.Narrow())
	assert.False(t, away.Narrow())
}

// Dequantize, then quantize, is the identity on the grid wherever the scale leaves room; the other order is not.
func TestQuantizeInvertsDequantize(t *testing.T) {
	for _, g := range grids[:4] {
		for q := g.QMin; q <= g.QMax; q++ {
			require.Equal(t, q, g.Quantize(g.Dequantize(q)), "%+v", g)
		}
	}
}

func TestClip(t *testing.T) {
	g := Grid{Scale: 0.5, QMin: -4, QMax: 3}
	assert.Equal(t, []float32{-2, -1.3, 1.5, 1.5}, []float32{g.Clip(-9), g.Clip(-1.3), g.Clip(1.5), g.Clip(inf(1))})
	assert.True(t, math.IsNaN(float64(g.Clip(float32(math.NaN())))))
}

func FuzzFakeSlice(f *testing.F) {
	f.Add(uint32(0x3dcccccd), uint32(0x3eb33333), int32(3))
	f.Fuzz(func(t *testing.T, scale, x uint32, zp int32) {
		g := Grid{Scale: math.Float32frombits(scale), ZeroPoint: max(-128, min(zp, 127)), QMin: -128, QMax: 127}
		if !Representable(g.Scale) {
			return
		}
		var got [1]float32
		g.FakeSlice(got[:], []float32{math.Float32frombits(x)})
		if want := g.Fake(math.Float32frombits(x)); math.Float32bits(want) != math.Float32bits(got[0]) {
			t.Fatalf("%+v of %g: %g, want %g", g, math.Float32frombits(x), got[0], want)
		}
	})
}

func TestRepresentable(t *testing.T) {
	for x, want := range map[float32]bool{1: true, 1e-45: true, 0: false, -1: false, inf(1): false} {
		assert.Equal(t, want, Representable(x), x)
	}
	assert.False(t, Representable(float32(math.NaN())))
}

func BenchmarkFakeSlice(b *testing.B) {
	xs := make([]float32, 1<<14)
	for i := range xs {
		xs[i] = float32(i%1000) * 0.01
	}
	dst := make([]float32, len(xs))
	b.SetBytes(int64(4 * len(xs)))
	for b.Loop() {
		grids[0].FakeSlice(dst, xs)
	}
}

func TestClipSliceIsClip(t *testing.T) {
	g := Grid{Scale: 0.1, ZeroPoint: 3, QMin: 0, QMax: 255}
	nan := float32(math.NaN())
	src := []float32{-1, -0.3, 0, 1, 25.2, 25.3, 1e30, float32(math.Inf(-1)), float32(math.Inf(1)), nan}
	dst := make([]float32, len(src))
	g.ClipSlice(dst, src)
	for i, x := range src {
		if want := g.Clip(x); math.Float32bits(dst[i]) != math.Float32bits(want) {
			t.Errorf("Clip(%g) = %g, in a slice %g", x, want, dst[i])
		}
	}
	if dst[0] != g.Dequantize(0) || dst[6] != g.Dequantize(255) || dst[9] == dst[9] {
		t.Errorf("clipped to %v", dst)
	}
}
