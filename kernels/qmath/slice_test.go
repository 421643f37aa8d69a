package qmath

import (
	"math"
	"math/rand/v2"
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
		for _, g := range []Grid{{Scale: 0.125, QMin: -127, QMax: 127}, {Scale: 0.3, ZeroPoint: 131, QMax: 255}, {Scale: 1e-38, ZeroPoint: -128, QMin: -128, QMax: 127}} {
			g.Rounding = r
			g.QuantizeSlice(dst, src)
			for i, x := range src {
				require.Equal(t, g.Quantize(x), dst[i], "%v of %+v", x, g)
			}
		}
	}
	c := Codec{Format: Format{Type: BookNF4}, Scale: 0.5}
	c.QuantizeSlice(dst, src)
	for i, x := range src {
		require.Equal(t, c.Quantize(x), dst[i])
	}
}
