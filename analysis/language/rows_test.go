package language

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMostLikely holds the places of the largest to a stable sort.
func TestMostLikely(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		x := make([]float32, n+tops)
		order := make([]int, len(x))
		for i := range x {
			x[i], order[i] = float32(r.IntN(12)), i // many are equal
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(x[b] - x[a]) })
		at := mostLikely(x)
		require.Equal(t, order[:tops], at[:])
	}
}

func TestAgreement(t *testing.T) {
	f := []float32{9, 8, 7, 6, 5, 4, 3}
	assert.Equal(t, 1.0, agreement(mostLikely([]float32{5, 6, 7, 8, 9, 0, 1}), mostLikely(f), 7))
	assert.Equal(t, 0.6, agreement(mostLikely([]float32{9, 8, 7, 0, 0, 4, 3}), mostLikely(f), 7))
	assert.Equal(t, 1.0, agreement(mostLikely([]float32{1, 2}), mostLikely([]float32{2, 1}), 2), "fewer tokens than five")
}
