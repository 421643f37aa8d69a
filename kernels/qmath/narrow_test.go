package qmath

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Slices are quantized as single numbers are, ties, ends and what is no number included.
func TestSlicesOfNarrowGrids(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, g := range []Grid{{0.5, 0, -128, 127, HalfEven}, {0.0123, 3, 0, 255, HalfEven}, {1e-3, -7, -32768, 32767, HalfEven},
		{2, 0, -7, 7, HalfEven},
		{1, 0, -1 << 22, 1 << 22, HalfEven}, {3e-39, 128, 0, 255, HalfEven}} {
		inf := float32(math.Inf(1))
		src := []float32{0, inf, -inf, float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, float32(math.Copysign(0, -1)), 1e-45}
		for k := -300; k < 300; k++ {
			tie := g.Scale * (float32(k) + 0.5)
			src = append(src, tie, math.Nextafter32(tie, inf), math.Nextafter32(tie, -inf), g.Scale*float32(r.NormFloat64()*200))
		}
		dst := make([]int32, len(src))
		g.QuantizeSlice(dst, src)
		for i, x := range src {
			require.Equal(t, g.Quantize(x), dst[i], "%v of %+v", x, g)
		}
	}
}
