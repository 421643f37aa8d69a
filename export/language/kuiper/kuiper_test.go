package kuiper_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/kuiper"
	"qwb/export/language/llama2c"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

// TestLayout: the header, and the tensors where KuiperLLama reads them, which are those of llama2.c version 2 in another order.
func TestLayout(t *testing.T) {
	c := weightstest.Llama()
	c.Tied = true
	m := weightstest.Model(t, c, 1)
	f, err := kuiper.Format().Layout(m, weights.Options{Group: 32})
	require.NoError(t, err)
	b := weightstest.Bytes(t, f)
	var header [8]int32
	for i := range header {
		header[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	assert.Equal(t, [8]int32{64, 96, 2, 4, 2, -300, 32, 32}, header)

	q, err := llama2c.Q80().Layout(m, weights.Options{Group: 32})
	require.NoError(t, err)
	v2 := weightstest.Bytes(t, q)
	size := func(n int) int { return n + n/32*4 }
	embedding := size(300 * 64)
	matrices := len(v2) - 256 - 4*(5*64) - embedding
	at := 256 + 4*(5*64) + embedding
	assert.Equal(t, v2[at:at+matrices], b[32:32+matrices], "the matrices of the layers")
	at = 256 + 4*(5*64)
	assert.Equal(t, v2[at:at+embedding], b[32+matrices:32+matrices+embedding], "the classifier is the quantized embedding")
	rest := b[32+matrices+embedding:]
	assert.Len(t, rest, 4*(300*64+5*64))
	assert.Equal(t, v2[256:256+4*5*64], rest[4*300*64:], "the norms")
}

func TestRoundTrips(t *testing.T) {
	for _, theta := range []float64{10000, 500000} {
		for _, pairing := range []checkpoint.Pairing{checkpoint.Interleaved, checkpoint.Halves} {
			for _, tied := range []bool{false, true} {
				c := weightstest.Llama()
				c.RopeTheta, c.Pairing, c.Tied = theta, pairing, tied
				f, back, _ := weightstest.RoundTrip(t, kuiper.Format(), weightstest.Model(t, c, 2), weights.Options{})
				assert.False(t, back.Tied)
				assert.Equal(t, theta == 500000, back.Pairing == checkpoint.Halves)
				assert.Equal(t, theta == 500000, len(f.Warnings) == 2, "%v", f.Warnings) // one is about the groups
			}
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	weightstest.Faults(t, kuiper.Format(), weightstest.Model(t, weightstest.Llama(), 3), weights.Options{Group: 16}, nil)
}

func TestWhatKuiperCannotHold(t *testing.T) {
	for _, c := range []struct {
		want   string
		group  int
		change func(c *checkpoint.Config)
	}{
		{"biases", 0, func(c *checkpoint.Config) { c.Family = checkpoint.Qwen2 }},
		{"base of rotary embedding of 1e+06", 0, func(c *checkpoint.Config) { c.RopeTheta = 1e6 }},
		{"do not divide the rows of 96 elements of down", 64, func(*checkpoint.Config) {}},
	} {
		shape := weightstest.Llama()
		c.change(&shape)
		_, err := kuiper.Format().Layout(weightstest.Model(t, shape, 4), weights.Options{Group: c.group})
		assert.ErrorContains(t, err, c.want)
	}
}

func TestOpensByItself(t *testing.T) {
	weightstest.Opens(t, kuiper.Format(), weightstest.Model(t, weightstest.Llama(), 6), weights.Options{})
}
