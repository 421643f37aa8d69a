package qmath

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Slices are quantized as single numbers are, in every rounding, at halves, infinities and NaN.
func TestQuantizeSliceIsQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	src := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, -1e30, 1e-40}
	for i := range 4000 {
		src = append(src, float32(i-2000)/16, (rng.Float32()-0.5)*300)
	}
	dst := make([]int32, len(src))
	for r := HalfEven; r <= Down; r++ {
		for _, g := range []Grid{{Scale: 0.125, QMin: -127, QMax: 127}, {Scale: 0.3, ZeroPoint: 131, QMax: 255},
			{Scale: 1e-38, ZeroPoint: -128, QMin: -128, QMax: 127}} {
			g.Rounding = r
			g.QuantizeSlice(dst, src)
			for i, x := range src {
				require.Equal(t, g.Quantize(x), dst[i], "%v of %+v", x, g)
			}
			grids := slices.Repeat([]Grid{g, {Scale: 2, QMin: -8, QMax: 7, Rounding: r}, {Scale: 1, QMin: -1 << 30, QMax: 1 << 30}}, len(src))
			QuantizeColumns(dst, src, grids)
			for i, x := range src {
				require.Equal(t, grids[i].Quantize(x), dst[i], "%v of column %+v", x, grids[i])
			}
		}
	}
	c := Codec{Format: Format{Type: BookNF4}, Scale: 0.5}
	c.QuantizeSlice(dst, src)
	for i, x := range src {
		require.Equal(t, c.Quantize(x), dst[i])
	}
}

// Slices of accumulators get the codes of single ones under every profile, with and without a residual.
func TestRequantizeSliceIsRequantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	acc, residual := make([]int64, 3000), make([]int32, 3000)
	for i := range acc {
		acc[i], residual[i] = rng.Int64N(1<<18)-1<<17, rng.Int32N(256)
		if i%100 == 0 {
			acc[i] = rng.Int64N(1<<31) - 1<<30
		}
	}
	dst := make([]int32, len(acc))
	for _, p := range Profiles() {
		for _, lo := range []int32{-128, -127, 0} {
			m, err := p.Prepare(Channel{X: 1. / 64, W: 1. / 256, Y: 0.5, Bias: 0.3})
			require.NoError(t, err)
			p.RequantizeSlice(dst, acc, m, nil, Skip{}, 3, lo, lo+255)
			for i, a := range acc {
				require.Equal(t, p.Requantize64(a, m, 3, lo, lo+255), dst[i], p.Name)
			}
			if !p.Float() {
				continue
			}
			skip := p.PrepareSkip(Grid{Scale: 0.4, ZeroPoint: 100, QMax: 255}, 0.5)
			p.RequantizeSlice(dst, acc, m, residual, skip, 3, lo, lo+255)
			for i, a := range acc {
				require.Equal(t, p.RequantizeAdd64(a, m, residual[i], skip, 3, lo, lo+255), dst[i], p.Name)
			}
		}
	}
}
