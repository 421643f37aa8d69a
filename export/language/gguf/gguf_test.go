package gguf_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/gguf"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

func TestRoundTrips(t *testing.T) {
	for _, form := range gguf.Format().Matrices {
		for _, family := range []checkpoint.Family{checkpoint.Llama, checkpoint.Qwen2} {
			for _, pairing := range []checkpoint.Pairing{checkpoint.Interleaved, checkpoint.Halves} {
				c := weightstest.Llama()
				c.Family, c.Pairing, c.Tied, c.RopeTheta, c.NormEps = family, pairing, pairing == checkpoint.Halves, 1e6, 1e-6
				_, back, found := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 1),
					weights.Options{Matrices: form, Search: family == checkpoint.Qwen2})
				assert.Equal(t, family == checkpoint.Qwen2, back.Pairing == checkpoint.Halves)
				assert.Equal(t, !strings.HasPrefix(form, "f"), found.Codes > 0, form)
				if form == "q8_0" && family == checkpoint.Llama { // searched scales may cut weights off
					assert.Less(t, found.LargestError, 0.6)
				}
			}
		}
	}
}

// TestBlocksOf256: matrices are in the type asked for where rows are whole blocks, else in the one that llama-quantize falls back to; a
// file written again from what was read is the same.
func TestBlocksOf256(t *testing.T) {
	c := weightstest.Llama()
	c.Hidden = 256
	for form, want := range map[string][2]checkpoint.Type{
		"q2_k": {checkpoint.Q2K, checkpoint.IQ4NL}, "q3_k": {checkpoint.Q3K, checkpoint.IQ4NL},
		"q4_k": {checkpoint.Q4K, checkpoint.GGQ50}, "q5_k": {checkpoint.Q5K, checkpoint.GGQ51}, "q6_k": {checkpoint.Q6K, checkpoint.GGQ8},
		"iq4_xs": {checkpoint.IQ4XS, checkpoint.IQ4NL}} {
		for _, search := range []bool{false, true} {
			o := weights.Options{Matrices: form, Search: search}
			f, back, found := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 1), o)
			assert.Equal(t, want, [2]checkpoint.Type{back.Tensor(checkpoint.Down, 0).Type, back.Tensor(checkpoint.Query, 1).Type}, form)
			assert.Contains(t, f.Warnings[0].Text, "its rows of 64 elements are no whole blocks of 256")
			assert.Positive(t, found.Codes)
			o.Fallback = weights.FallbackIgnore
			_, again, _ := weightstest.RoundTrip(t, gguf.Format(), back, o)
			assert.Equal(t, back.Tensor(checkpoint.Down, 1).All(), again.Tensor(checkpoint.Down, 1).All())
			assert.Equal(t, checkpoint.F16, again.Tensor(checkpoint.Query, 1).Type)
		}
	}
	_, err := gguf.Format().Layout(weightstest.Model(t, c, 1), weights.Options{Matrices: "q4_k", Fallback: weights.FallbackError})
	assert.ErrorContains(t, err, "Q4_K needs rows of a multiple of 256 elements, those of embedding have 64")
}

// TestShapesThatNeedMetadata: heads of another size, and scaled rotary frequencies.
func TestShapesThatNeedMetadata(t *testing.T) {
	for _, change := range []func(c *checkpoint.Config){
		func(c *checkpoint.Config) { c.HeadDim = 32 },
		func(c *checkpoint.Config) { c.Scaling = &checkpoint.RopeScaling{Factor: 4} },
		func(c *checkpoint.Config) {
			c.Scaling = &checkpoint.RopeScaling{Factor: 8, LowFactor: 1, HighFactor: 4, OriginalContext: 8192}
			c.RopeTheta = 500000
		},
		func(c *checkpoint.Config) {
			c.Scaling = &checkpoint.RopeScaling{Factor: 4, OriginalContext: 64, BetaFast: 32, BetaSlow: 1, Attention: checkpoint.YarnAttention(4)}
		},
	} {
		c := weightstest.Llama()
		change(&c)
		_, back, _ := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 1), weights.Options{})
		assert.Equal(t, c.Scaling, back.Scaling)
		assert.Equal(t, c.HeadDim, back.HeadDim)
	}
	c := weightstest.Llama()
	c.Scaling = &checkpoint.RopeScaling{Factor: 8, LowFactor: 1, HighFactor: 4, OriginalContext: 4096} // not those of Llama 3: read as a list
	_, back, _ := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 1), weights.Options{})
	assert.InDeltaSlice(t, c.Frequencies(), back.Frequencies(), 1e-7)
	again, more, _ := weightstest.RoundTrip(t, gguf.Format(), back, weights.Options{})
	assert.Equal(t, back.Scaling, more.Scaling)
	assert.NotNil(t, again)
	c.Scaling = &checkpoint.RopeScaling{Factor: 0.1}
	_, err := gguf.Format().Layout(weightstest.Model(t, c, 1), weights.Options{})
	assert.ErrorContains(t, err, "as float32, which 0.1 is not")
	_, err = gguf.Format().Layout(weightstest.Model(t, weightstest.Llama(), 1), weights.Options{Group: 64})
	assert.ErrorContains(t, err, "those of GGUF have 32")
}

func TestRowsThatAreNoBlocks(t *testing.T) {
	c := weightstest.Llama()
	c.Hidden = 100
	f, back, _ := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 1), weights.Options{Matrices: "q4_0"})
	assert.Equal(t, checkpoint.F16, back.Tensor(checkpoint.Down, 0).Type)
	assert.Equal(t, checkpoint.GGQ4, back.Tensor(checkpoint.Gate, 0).Type)
	require.Len(t, f.Warnings, 2)
	assert.Contains(t, f.Warnings[0].Text, "down is written as float16")
}

// TestTokenizerIsCarried: what is known about the tokens comes back as it was, and a GGUF file written from one that was read is the same
// file.
func TestTokenizerIsCarried(t *testing.T) {
	tokens := map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": []string{"<unk>", "a\u2581", ""},
		"tokenizer.ggml.scores":     []float32{0, -1.5, 1e-9},
		"tokenizer.ggml.token_type": []int32{2, 1, -1}, "tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.add_bos_token": true,
		"tokenizer.ggml.eos_token_id": uint32(2),
	}
	m := weightstest.Model(t, weightstest.Llama(), 1)
	f, err := gguf.Format().Layout(m, weights.Options{Tokenizer: tokens})
	require.NoError(t, err)
	assert.Empty(t, f.Warnings)
	want := weightstest.Bytes(t, f)
	path := filepath.Join(t.TempDir(), "a.gguf")
	require.NoError(t, os.WriteFile(path, want, 0o600))
	back, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer back.Close()
	for key, value := range tokens {
		assert.Equal(t, value, back.Metadata[key], key)
	}
	assert.Equal(t, []int{2}, back.EOS)
	f, err = gguf.Format().Layout(back, weights.Options{Tokenizer: tokens})
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, weightstest.Bytes(t, f)))

	_, err = gguf.Format().Layout(m, weights.Options{Tokenizer: map[string]any{"tokenizer.ggml.model": 3}})
	assert.ErrorContains(t, err, `"tokenizer.ggml.model" of the tokenizer are of type int`)
}

func TestFaultsAreFound(t *testing.T) {
	m := weightstest.Model(t, weightstest.Llama(), 3)
	f, err := gguf.Format().Layout(m, weights.Options{Matrices: "q4_0"})
	require.NoError(t, err)
	header := len(f.Items[0].Bytes)
	weightstest.Faults(t, gguf.Format(), m, weights.Options{Matrices: "q4_0"}, func(at int) bool { return at < header })
}

func TestWeightsThatDoNotFit(t *testing.T) {
	part := checkpoint.Part{Role: checkpoint.Up, Layer: 1}
	for _, c := range []struct {
		form, want string
		value      float32
	}{
		{"f16", "too large for float16", 1e6},
		{"q8_0", "too large for Q8_0", 1e9},
		{"q4_0", "too large for Q4_0", 1e9},
	} {
		m := weightstest.Edit(t, weightstest.Model(t, weightstest.Llama(), 1), part, func(x []float32) { x[77] = c.value })
		f, err := gguf.Format().Layout(m, weights.Options{Matrices: c.form})
		require.NoError(t, err)
		var b bytes.Buffer
		err = f.Write(context.Background(), &b, weights.Run{Threads: 2})
		assert.ErrorContains(t, err, c.want)
		assert.ErrorContains(t, err, "up of layer 1")
	}
}

// TestFamilies: what llama.cpp has a name for is written and read; other families are refused.
func TestFamilies(t *testing.T) {
	for _, family := range []checkpoint.Family{checkpoint.Qwen3, checkpoint.Llama, checkpoint.Mistral} {
		c := weightstest.Llama()
		c.Family, c.Pairing = family, checkpoint.Halves
		c.HeadNorm, c.Bias, c.OutputBias = family == checkpoint.Qwen3, family != checkpoint.Mistral, family == checkpoint.Llama
		_, back, found := weightstest.RoundTrip(t, gguf.Format(), weightstest.Model(t, c, 7), weights.Options{Matrices: "f32"})
		assert.Equal(t, c.Switches, back.Switches)
		assert.Zero(t, found.LargestError)
	}
	for want, change := range map[string]func(c *checkpoint.Config){
		"GGUF of the phi3 family is not written": func(c *checkpoint.Config) { c.Family = checkpoint.Phi3 },
		"attention in windows has no place in GGUF's llama": func(c *checkpoint.Config) {
			c.Family, c.Windows = checkpoint.Mistral, []int{4, 4}
		},
	} {
		c := weightstest.Llama()
		change(&c)
		_, err := gguf.Format().Layout(weightstest.Model(t, c, 7), weights.Options{})
		assert.ErrorContains(t, err, want)
	}
}
