package language

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ratioOf(x []float64, n ...int) *ratio {
	var r ratio
	for i := range x {
		r.add(x[i], n[i%len(n)])
	}
	return &r
}

func TestRatio(t *testing.T) {
	r := ratioOf([]float64{4, 8, 6, 2}, 2)
	assert.Equal(t, 2.5, r.mean())
	require.NotNil(t, r.err()) // of equal sequences it is the standard error of the mean: of 2, 4, 3, 1
	assert.InDelta(t, math.Sqrt(5./3)/2, *r.err(), 1e-12)

	r = ratioOf([]float64{3, 10}, 1, 4) // 13/5; the residuals are 0.4 and -0.4
	assert.InDelta(t, 2.6, r.mean(), 1e-12)
	assert.InDelta(t, math.Sqrt(2*(0.16+0.16))/5, *r.err(), 1e-12)

	assert.InDelta(t, 0, *ratioOf([]float64{0.3, 0.6, 1.5}, 1, 2, 5).err(), 1e-7, "no sequence differs from the mean")
	assert.Nil(t, ratioOf([]float64{3}, 7).err())
	assert.Nil(t, ratioOf(nil).err())
	assert.Zero(t, ratioOf(nil).mean())
}

// TestRatioError: over many draws, the mean strays as far as its error says.
func TestRatioError(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var squares, claimed float64
	const draws, mean = 4000, 1.5
	for range draws {
		var r ratio
		for range 30 {
			n := 5 + random.IntN(60)
			own := mean + 0.4*random.NormFloat64() // of the sequence
			x := 0.0
			for range n {
				x += own + random.NormFloat64()
			}
			r.add(x, n)
		}
		squares += (r.mean() - mean) * (r.mean() - mean)
		claimed += *r.err() * *r.err()
	}
	assert.InDelta(t, 1, math.Sqrt(claimed/squares), 0.08)
}
