package decode_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

// TestAnotherEpsilon computes the same logits, of a shared classifier too; a model that has merely another epsilon does not.
func TestAnotherEpsilon(t *testing.T) {
	for _, tied := range []bool{false, true} {
		c := weightstest.Llama()
		c.Tied, c.NormEps = tied, 1e-2
		m := weightstest.Model(t, c, 1)
		want := logits(t, m, decode.Options{})
		other, err := m.WithEpsilon(1e-3)
		require.NoError(t, err)
		require.False(t, other.Tied)
		wrong := *m
		wrong.NormEps = 1e-3
		assert.Less(t, apart(want, logits(t, other, decode.Options{})), 1e-5)
		assert.Greater(t, apart(want, logits(t, &wrong, decode.Options{})), 1e-3)
		same, err := m.WithEpsilon(1e-2)
		require.NoError(t, err)
		assert.Same(t, m, same)
		_, err = m.WithEpsilon(0)
		assert.ErrorContains(t, err, "an epsilon of 0.01 cannot have one of 0")
	}
	_, err := storedModel(t, checkpoint.GGQ8).WithEpsilon(1e-3)
	assert.ErrorContains(t, err, "which is quantized")
	c := weightstest.Llama()
	c.HeadNorm = true
	_, err = weightstest.Model(t, c, 2).WithEpsilon(1e-3)
	assert.ErrorContains(t, err, "beside Llama's parts")
}

// apart is the largest difference, in parts of the largest magnitude.
func apart(x, y []float32) float64 {
	var most, difference float64
	for i, v := range x {
		most = max(most, math.Abs(float64(v)))
		difference = max(difference, math.Abs(float64(v-y[i])))
	}
	return difference / most
}
