package qmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every code is the rounding of a number within the stated deviation of the exact one: codes of 8 and 16 bits, short rows and long ones,
// rows of one code, with and without epsilon.
func TestLayerNormIsWithinItsDeviation(t *testing.T) {
	p, err := ProfileNamed("pow2-half-even")
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for k, n := range []int{1, 2, 3, 20, 768, 5000} {
		for _, x := range []Grid{{Scale: 0x1p-5, QMin: -128, QMax: 127}, {Scale: 0x1p-12, QMin: -32768, QMax: 32767}} {
			y := Grid{Scale: 0x1p-5, QMin: -128, QMax: 127}
			eps := []float64{0, 1e-5, 1e-12}[k%3]
			scale, bias, codes := make([]float32, n), make([]float32, n), make([]int32, n)
			for i := range n {
				scale[i], bias[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
				codes[i] = int32(float64(x.QMax) * (r.Float64() - 0.3) / float64(1+r.IntN(40)))
			}
			o, err := p.PrepareLayerNorm(x, y, scale, bias, eps)
			require.NoError(t, err)
			require.Less(t, o.Deviation(), 0.25)
			holdLayerNorm(t, o, codes, scale, bias, eps)
			for i := range codes {
				codes[i] = x.QMin
			}
			holdLayerNorm(t, o, codes, scale, bias, eps)
		}
	}
	_, err = p.PrepareLayerNorm(Grid{Scale: 1, QMin: -32768, QMax: 32767}, Grid{Scale: 1, QMin: -128, QMax: 127}, make([]float32, 1<<17),
		make([]float32, 1<<17), 1e-5)
	require.ErrorContains(t, err, "sums of their squares leave 60 bits")
}

func holdLayerNorm(t *testing.T, o LayerNorm, codes []int32, scale, bias []float32, eps float64) {
	t.Helper()
	got, n, s := make([]int32, len(codes)), float64(o.N), float64(o.X.Scale)
	o.Row(got, codes)
	mean, variance := 0.0, 0.0
	for _, q := range codes {
		mean += float64(q) / n
	}
	for _, q := range codes {
		variance += (float64(q) - mean) * (float64(q) - mean) / n
	}
	for i, q := range codes {
		u := 0.0
		if variance > 1e-9 { // of codes that differ it is more
			u = (float64(q) - mean) * s / math.Sqrt(variance*s*s+eps)
		}
		want := (u*float64(scale[i]) + float64(bias[i])) / float64(o.Y.Scale)
		want = min(max(want, float64(o.Y.QMin)), float64(o.Y.QMax))
		require.LessOrEqual(t, math.Abs(float64(got[i])-want), 0.5+o.Deviation()+1e-9, "%d of %d", i, o.N)
	}
}
