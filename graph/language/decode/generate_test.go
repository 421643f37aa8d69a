package decode_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/decode"
)

var prompts = map[string]string{
	"Once upon a time": "Onceuponatim", "One day, Tim and his sister": "OnedayTimand", "The little dog": "Thelittledog",
}

// TestGreedyTexts: the texts are those that llama2.c's run gives.
func TestGreedyTexts(t *testing.T) {
	for model, vocabulary := range map[string]string{"stories260K": "tok512.bin", "stories15M": "tokenizer.bin"} {
		tok := tokenizer(t, vocabulary)
		e := engine(t, model+".bin", decode.Options{})
		for prompt, file := range prompts {
			want, err := os.ReadFile(llm(t) + "/expected/" + model + ".float." + file + ".txt")
			require.NoError(t, err)
			ids, err := e.Generate(context.Background(), append([]int{1}, tok.Encode(prompt)...), 200, decode.Sampling{}, nil)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimSuffix(string(want), "\n"), decode.Text(tok, ids[0], ids[1:]), "%s: %s", model, prompt)
		}
	}
}

// TestForwardDoesNotDependOnItsCalls: one token at a time, all at once, with other sequences, on any number of threads.
func TestForwardDoesNotDependOnItsCalls(t *testing.T) {
	ctx := context.Background()
	ids := append([]int{1}, tokenizer(t, "tok512.bin").Encode("Lily and Tom went to the park. "+
		"They saw a big dog and a small cat on the grass.")...)
	e := engine(t, "stories260K.bin", decode.Options{Threads: 1})
	whole, err := e.Forward(ctx, []decode.Sequence{{decode.NewCache(&e.Config), ids, len(ids)}})
	require.NoError(t, err)
	whole = append([]float32(nil), whole...)
	for _, threads := range []int{1, 2, 7} {
		e := engine(t, "stories260K.bin", decode.Options{Threads: threads})
		a, b := decode.NewCache(&e.Config), decode.NewCache(&e.Config)
		for i := range ids {
			one, err := e.Forward(ctx, []decode.Sequence{{a, ids[i : i+1], 1}, {b, []int{7, 9}, 0}})
			require.NoError(t, err)
			require.Equal(t, whole[i*e.Vocab:][:e.Vocab], one, "token %d, %d threads", i, threads)
		}
	}
}

func TestForwardRefuses(t *testing.T) {
	ctx := context.Background()
	e := engine(t, "stories260K.bin", decode.Options{})
	cache := decode.NewCache(&e.Config)
	_, err := e.Forward(ctx, []decode.Sequence{{cache, []int{1, 512}, 0}})
	assert.ErrorContains(t, err, "token 512 is outside of the vocabulary of 512")
	_, err = e.Forward(ctx, []decode.Sequence{{cache, make([]int, 513), 0}})
	assert.ErrorContains(t, err, "position 512 is beyond the context of 512")
	assert.Zero(t, cache.Len())
	_, err = e.Generate(ctx, []int{1}, 0, decode.Sampling{TopK: 513}, nil)
	assert.ErrorContains(t, err, "top-k of 513 in a vocabulary of 512")
	_, err = e.Generate(ctx, nil, 0, decode.Sampling{}, nil)
	assert.ErrorContains(t, err, "prompt of 0 tokens")
}

// TestSamplingFollowsTheProbabilities: what is drawn has the frequencies of softmax, cut as asked for.
func TestSamplingFollowsTheProbabilities(t *testing.T) {
	logits := []float32{2, 1, 0, -1}
	for _, c := range []struct {
		s    decode.Sampling
		kept int
	}{
		{decode.Sampling{Temperature: 1}, 4}, {decode.Sampling{Temperature: 0.5}, 4}, {decode.Sampling{Temperature: 1, TopK: 2}, 2},
		{decode.Sampling{Temperature: 1, TopP: 0.7}, 2}, {decode.Sampling{Temperature: 1, TopP: 0.5}, 1},
		{decode.Sampling{Temperature: 1, TopK: 3, TopP: 0.999}, 3},
	} {
		c.s.Seed = 5
		counts := make([]float64, 4)
		const n = 20000
		for _, id := range decode.Draw(c.s, logits, n) {
			counts[id]++
		}
		sum := 0.0
		for i := range c.kept {
			sum += math.Exp(float64(logits[i]) / c.s.Temperature)
		}
		for i, k := range counts {
			want := math.Exp(float64(logits[i])/c.s.Temperature) / sum
			if i >= c.kept {
				want = 0
			}
			assert.InDelta(t, want, k/n, 0.015, "%+v token %d", c.s, i)
		}
		assert.Equal(t, decode.Draw(c.s, logits, 50), decode.Draw(c.s, logits, 50))
	}
}

// TestGenerateMany: each prompt is continued as if it were alone, whatever runs beside it and however its beginning came to be known.
func TestGenerateMany(t *testing.T) {
	ctx := context.Background()
	tok := tokenizer(t, "tok512.bin")
	e := engine(t, "stories260K.bin", decode.Options{Weights: decode.Weights{Group: 4}, Cache: decode.CacheInt8})
	var prompts [][]int
	common := "Lily and Tom went to the park. They saw a big dog and a small cat on the grass. "
	for _, s := range []string{common + "The dog", common + "The cat", "Once", common + "The dog", common[:40], "", common + "They ran"} {
		prompts = append(prompts, append([]int{1}, tok.Encode(s)...))
	}
	for _, sampling := range []decode.Sampling{{}, {Temperature: 0.9, TopP: 0.9, Seed: 3}} {
		var want [][]int
		for _, p := range prompts {
			ids, err := e.Generate(ctx, p, 70, sampling, nil)
			require.NoError(t, err)
			want = append(want, ids)
		}
		for _, width := range []int{1, 3, 100} {
			got := make([][]int, len(prompts))
			shared, err := e.GenerateMany(ctx, prompts, decode.Many{Limit: 70, Sampling: sampling, Width: width,
				Done: func(i int, ids []int) error { got[i] = ids; return nil }})
			require.NoError(t, err)
			assert.Equal(t, want, got)
			assert.Greater(t, shared, 3*len(tok.Encode(common))-20, "what three prompts begin with is run once")
		}
	}
	_, err := e.GenerateMany(ctx, [][]int{{1}, {}}, decode.Many{})
	assert.ErrorContains(t, err, "prompt 2 has 0 tokens")
	broken := errors.New("broken")
	_, err = e.GenerateMany(ctx, prompts, decode.Many{Limit: 70, Done: func(int, []int) error { return broken }})
	assert.ErrorIs(t, err, broken)
}
