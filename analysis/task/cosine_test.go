package task

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Masked scores are -inf in both, or in one: the cosine is that of the others.
func TestCosineOfMaskedScores(t *testing.T) {
	inf := float32(math.Inf(-1))
	c, err := angle([]float32{1, inf, 2, -9}, []float32{1, inf, 2, inf})
	require.NoError(t, err)
	require.InDelta(t, 1, c, 1e-12)
	c, err = angle([]float32{1, -inf, 2}, []float32{1, -inf, 2})
	require.NoError(t, err)
	require.InDelta(t, 1, c, 1e-12)
	_, err = angle([]float32{1, -inf}, []float32{1, 2})
	require.Error(t, err)
}
