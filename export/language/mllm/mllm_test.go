package mllm_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/mllm"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

// TestIndex walks through the index as mllm's ParamLoader does.
func TestIndex(t *testing.T) {
	c := weightstest.Llama()
	c.Tied, c.Family, c.Pairing = true, checkpoint.Qwen2, checkpoint.Halves
	f, err := mllm.Format().Layout(weightstest.Model(t, c, 1), weights.Options{})
	require.NoError(t, err)
	b := weightstest.Bytes(t, f)
	le := binary.LittleEndian
	assert.Equal(t, uint32(20012), le.Uint32(b))
	end := 12 + int(le.Uint64(b[4:]))
	next := uint64(end)
	kinds := map[string]uint32{}
	for at := 12; at < end; {
		n := int(le.Uint32(b[at:]))
		name := string(b[at+4 : at+4+n])
		at += 4 + n
		assert.Equal(t, next, le.Uint64(b[at+8:]), name)
		next += le.Uint64(b[at:])
		kinds[name] = le.Uint32(b[at+16:])
		at += 20
	}
	assert.Equal(t, uint64(len(b)), next)
	assert.Len(t, kinds, 3+2*12)
	for name, kind := range map[string]uint32{
		"model.embed_tokens.weight": 8, "lm_head.weight": 8, "model.norm.weight": 0, "model.layers.1.self_attn.q_proj.bias": 0,
		"model.layers.0.mlp.down_proj.weight": 8, "model.layers.1.input_layernorm.weight": 0,
	} {
		got, ok := kinds[name]
		assert.True(t, ok, name)
		assert.Equal(t, kind, got, name)
	}
}

func TestRoundTrips(t *testing.T) {
	for _, form := range mllm.Format().Matrices {
		for _, pairing := range []checkpoint.Pairing{checkpoint.Interleaved, checkpoint.Halves} {
			c := weightstest.Llama()
			c.Pairing = pairing
			f, back, _ := weightstest.RoundTrip(t, mllm.Format(), weightstest.Model(t, c, 2), weights.Options{Matrices: form, Search: true})
			assert.Equal(t, checkpoint.Halves, back.Pairing)
			require.Len(t, f.Warnings, 1)
			assert.Contains(t, f.Warnings[0].Text, "weights alone")
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	weightstest.Faults(t, mllm.Format(), weightstest.Model(t, weightstest.Llama(), 3), weights.Options{}, nil)
}

func TestWhatMllmCannotHold(t *testing.T) {
	c := weightstest.Llama()
	c.Hidden = 100
	_, err := mllm.Format().Layout(weightstest.Model(t, c, 1), weights.Options{})
	assert.ErrorContains(t, err, "those of down have 100")
	c = weightstest.Llama()
	c.Family, c.HeadNorm = checkpoint.Qwen3, true
	_, err = mllm.Format().Layout(weightstest.Model(t, c, 1), weights.Options{})
	assert.ErrorContains(t, err, "what the qwen3 family has beside Llama's parts")
	_, err = mllm.Format().Layout(weightstest.Model(t, weightstest.Llama(), 1), weights.Options{Group: 16})
	assert.ErrorContains(t, err, "those of mllm have 32")
}

func TestOpensByItself(t *testing.T) {
	weightstest.Opens(t, mllm.Format(), weightstest.Model(t, weightstest.Llama(), 6), weights.Options{Matrices: "q4_0"})
}
