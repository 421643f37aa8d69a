package decode

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels/qmath"
)

// TestCacheTypesRound: errors are at most half a step of the type, and the largest element stays.
func TestCacheTypesRound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	codes := make([]int8, 64)
	for range 50 {
		x := make([]float32, 64)
		for i := range x {
			x[i] = float32(r.NormFloat64() * 3)
		}
		round := func(kind CacheType) []float32 {
			y := append([]float32(nil), x...)
			kind.round(y, codes)
			return y
		}
		most := 0.0
		for _, v := range x {
			most = max(most, math.Abs(float64(v)))
		}
		int8s, fp8s, halves, q8, q4 := round(CacheInt8), round(CacheFP8), round(CacheF16), round(CacheQ8), round(CacheQ4)
		for i, v := range x {
			a := math.Abs(float64(v))
			assert.InDelta(t, v, int8s[i], most/127*0.501)
			assert.InDelta(t, v, fp8s[i], max(a/16, most/448/512)*1.001)
			assert.Equal(t, qmath.FP16.Round(v), halves[i])
			assert.InDelta(t, v, q8[i], most/127*0.6)
			assert.InDelta(t, v, q4[i], most/8*1.01)
		}
		assert.Equal(t, x, round(CacheF32))
	}
	for _, kind := range []CacheType{CacheF16, CacheInt8, CacheFP8, CacheQ8, CacheQ4} {
		zero := make([]float32, 32)
		kind.round(zero, codes)
		assert.Equal(t, make([]float32, 32), zero)
		bad := make([]float32, 32)
		bad[3] = float32(math.NaN())
		kind.round(bad, codes)
		assert.True(t, math.IsNaN(float64(bad[3])), "%s: what is not finite is not hidden", kind)
	}
}
