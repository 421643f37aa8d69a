package inferllm_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/inferllm"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

// shape is one that InferLLM runs: as many heads of keys and values as of queries, its epsilon, rows of pairs of blocks.
func shape() checkpoint.Config {
	c := weightstest.Llama()
	c.KVHeads, c.NormEps, c.Hidden = c.Heads, 1e-6, 192
	return c
}

func tokens(n int) map[string]any {
	text, types := make([]string, n), make([]int32, n)
	for i := range text {
		text[i], types[i] = fmt.Sprintf("\u2581t%d", i), 1
	}
	text[0], types[0] = "<unk>", 2
	text[1], types[1] = "<s>", 3
	text[2], types[2] = "<0x0A>", 6
	return map[string]any{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": text, "tokenizer.ggml.token_type": types}
}

// TestLayout walks through a file as InferLLM does.
func TestLayout(t *testing.T) {
	c := shape()
	c.Tied = true
	m := weightstest.Model(t, c, 1)
	f, err := inferllm.Format().Layout(m, weights.Options{Tokenizer: tokens(c.Vocab), Matrices: "q4_0"})
	require.NoError(t, err)
	b := weightstest.Bytes(t, f)
	at := 0
	next := func() int { at += 4; return int(int32(binary.LittleEndian.Uint32(b[at-4:]))) }
	assert.Equal(t, 0x123456, next())
	head := []int{next(), next(), next(), next(), next()}
	assert.Equal(t, []int{24, 20, 44}, head[:3])
	assert.Equal(t, []int{c.Dim, c.Heads, c.Layers, c.Hidden, c.Vocab}, []int{next(), next(), next(), next(), next()})
	var texts []string
	for range c.Vocab {
		n := next()
		texts = append(texts, string(b[at:at+n]))
		at += n
	}
	assert.Equal(t, []string{" \u2047 ", "", "\n", " t3"}, texts[:4])
	assert.Equal(t, head[4], at)
	names := map[string]bool{}
	for at < len(b) {
		dims, length, ftype := next(), next(), next()
		n, cols := 1, 0
		for range dims {
			cols = next()
			n *= cols
		}
		name := string(b[at : at+length])
		at += length
		names[name] = true
		if dims == 1 {
			assert.Zero(t, ftype, name)
			at += 4 * n
			continue
		}
		assert.Equal(t, 2, ftype, name)
		if name == "model.layers.1.mlp.up_proj.weight" {
			sameBlock(t, m.Tensor(checkpoint.Up, 1).All()[:32], b[at:at+20])
		}
		at += n / 32 * 20
	}
	assert.Equal(t, len(b), at)
	assert.Len(t, names, 3+2*9)
	assert.True(t, names["lm_head.weight"])
}

// sameBlock computes a block of Q4_0 as InferLLM's quantizer does.
func sameBlock(t *testing.T, x []float32, b []byte) {
	t.Helper()
	most := float32(0)
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	d := most / 7
	assert.Equal(t, d, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	for i, v := range x {
		code := int(math.Round(float64(v*(1/d)))) + 8
		assert.Equal(t, code, int(b[4+i/2]>>(4*(i%2))&15), "element %d", i)
	}
}

func TestRoundTrips(t *testing.T) {
	for _, form := range inferllm.Format().Matrices {
		for _, pairing := range []checkpoint.Pairing{checkpoint.Interleaved, checkpoint.Halves} {
			for _, search := range []bool{false, true} {
				c := shape()
				c.Pairing = pairing
				o := weights.Options{Tokenizer: tokens(c.Vocab), Matrices: form, Search: search}
				_, back, found := weightstest.RoundTrip(t, inferllm.Format(), weightstest.Model(t, c, 2), o)
				assert.Equal(t, checkpoint.Halves, back.Pairing)
				if form != "f32" && !search {
					assert.LessOrEqual(t, found.LargestError, 0.5001)
					assert.Greater(t, found.LargestError, 0.4)
				}
			}
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	c := shape()
	f, err := inferllm.Format().Layout(weightstest.Model(t, c, 3), weights.Options{Tokenizer: tokens(c.Vocab)})
	require.NoError(t, err)
	header := len(f.Items[0].Bytes)
	// What a token says is not compared.
	weightstest.Faults(t, inferllm.Format(), weightstest.Model(t, c, 3), weights.Options{Tokenizer: tokens(c.Vocab)},
		func(at int) bool { return at >= 44 && at < header })
}

func TestWhatInferLLMCannotHold(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(c *checkpoint.Config, o *weights.Options)
	}{
		{"2 heads of keys and values for 4", func(c *checkpoint.Config, _ *weights.Options) { c.KVHeads = 2 }},
		{"biases", func(c *checkpoint.Config, _ *weights.Options) { c.Family = checkpoint.Qwen2 }},
		{"multiple of 64 elements, those of down have 200", func(c *checkpoint.Config, _ *weights.Options) { c.Hidden = 200 }},
		{"computes the width of the feed-forward layers from the dimension 64: 256, and the model has 128",
			func(c *checkpoint.Config, _ *weights.Options) { c.Hidden = 128 }},
		{"name a tokenizer.bin", func(_ *checkpoint.Config, o *weights.Options) { o.Tokenizer = nil }},
		{"not of byte-pair encoding", func(_ *checkpoint.Config, o *weights.Options) { o.Tokenizer["tokenizer.ggml.model"] = "gpt2" }},
		{"299 tokens of 299 types", func(_ *checkpoint.Config, o *weights.Options) { o.Tokenizer = tokens(299) }},
		{"groups of 16", func(_ *checkpoint.Config, o *weights.Options) { o.Group = 16 }},
	} {
		s := shape()
		o := weights.Options{Tokenizer: tokens(s.Vocab)}
		c.change(&s, &o)
		_, err := inferllm.Format().Layout(weightstest.Model(t, s, 4), o)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestTheStartIsSaid: InferLLM refuses the file without --version 2.
func TestTheStartIsSaid(t *testing.T) {
	f, err := inferllm.Format().Layout(weightstest.Model(t, shape(), 5), weights.Options{Tokenizer: tokens(shape().Vocab)})
	require.NoError(t, err)
	require.Len(t, f.Warnings, 1)
	assert.Contains(t, f.Warnings[0].Text, "--version 2")
}

func TestOpensByItself(t *testing.T) {
	weightstest.Opens(t, inferllm.Format(), weightstest.Model(t, shape(), 6), weights.Options{Tokenizer: tokens(shape().Vocab)})
}
