package decode_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// TestExpectedTextsOfGroups: fed the texts that llama2.c's runq makes of stories15M in groups of 32, the most likely token is the
// next one nearly everywhere, and where it is not the two are close: the last bit of an exponential flips codes of activations.
func TestExpectedTextsOfGroups(t *testing.T) {
	tok := tokenizer(t, "tokenizer.bin")
	e := engine(t, "stories15M.bin", decode.Options{Weights: decode.Weights{Group: 32}})
	for prompt, file := range prompts {
		want, err := os.ReadFile(llm(t) + "/expected/stories15M.q80-g32." + file + ".txt")
		require.NoError(t, err)
		text := strings.TrimSuffix(string(want), "\n")
		ids := append([]int{1}, tok.Encode(text)...)
		require.Equal(t, text, decode.Text(tok, 1, ids[1:]))
		first := 1 + len(tok.Encode(prompt))
		logits, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: ids, Want: len(ids)}})
		require.NoError(t, err)
		same, n := 0, 0
		for i := first; i < len(ids); i++ {
			row := logits[(i-1)*e.Vocab:][:e.Vocab]
			best := decode.Largest(row)
			n++
			if best == ids[i] {
				same++
				continue
			}
			assert.Less(t, row[best]-row[ids[i]], float32(0.25), "%s position %d: %d instead of %d", prompt, i, best, ids[i])
		}
		t.Logf("%s: %d of %d", prompt, same, n)
		assert.GreaterOrEqual(t, float64(same), 0.97*float64(n), prompt)
		free, err := e.Generate(context.Background(), ids[:first], 200, decode.Sampling{}, nil)
		require.NoError(t, err)
		k := 0
		for k < min(len(free), len(ids)) && free[k] == ids[k] {
			k++
		}
		t.Logf("%s: the free-running text parts from runq's at token %d of %d", prompt, k, len(ids))
	}
}

// product is what Options.Sums is told.
type product struct {
	part checkpoint.Part
	sums []int32
}

// TestReferenceGivesTheSameSums: the kernels' int32 sums and the logits are those of the defining loops, for weights in groups that
// divide rows and groups that do not, of 8 and of 4 bits.
func TestReferenceGivesTheSameSums(t *testing.T) {
	for _, c := range []struct {
		file    string
		weights decode.Weights
	}{
		{"stories260K-q8.bin", decode.Weights{}},
		{"stories260K.bin", decode.Weights{Group: 4}},
		{"stories260K.bin", decode.Weights{Group: 32, Bits: 4}},
		{"stories260K.bin", decode.Weights{Group: 8, Bits: 4, Search: true}},
	} {
		run := func(o decode.Options) (logits []float32, all []product) {
			o.Weights = c.weights
			o.Sums = func(p checkpoint.Part, sums []int32) { all = append(all, product{p, slices.Clone(sums)}) }
			e := engine(t, c.file, o)
			cache := decode.NewCache(&e.Config)
			for _, tokens := range [][]int{{1, 403, 407, 261, 378}, {17}, {9}} {
				l, err := e.Forward(context.Background(), []decode.Sequence{{Cache: cache, Tokens: tokens, Want: 1}})
				require.NoError(t, err)
				logits = append(logits, l...)
			}
			return logits, all
		}
		want, wantSums := run(decode.Options{Reference: true, Threads: 1})
		for _, threads := range []int{1, 2, 7} {
			got, sums := run(decode.Options{Threads: threads})
			assert.Equal(t, want, got, "%+v", c)
			assert.Equal(t, wantSums, sums, "%+v", c)
		}
		assert.Len(t, wantSums, 3*(5*7+1))
		assert.Equal(t, checkpoint.Part{Role: checkpoint.Query}, wantSums[0].part)
	}
}

// TestGroupsDoNotDependOnCalls: one token at a time gives the bits that all at once give.
func TestGroupsDoNotDependOnCalls(t *testing.T) {
	ctx := context.Background()
	e := engine(t, "stories260K.bin", decode.Options{Weights: decode.Weights{Group: 4}})
	ids := []int{1, 403, 407, 261, 378, 9, 11, 500, 20, 21, 22, 23, 24, 25, 26}
	whole, err := e.Forward(ctx, []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: ids, Want: len(ids)}})
	require.NoError(t, err)
	whole = slices.Clone(whole)
	cache := decode.NewCache(&e.Config)
	for i := range ids {
		one, err := e.Forward(ctx, []decode.Sequence{{Cache: cache, Tokens: ids[i : i+1], Want: 1}})
		require.NoError(t, err)
		require.Equal(t, whole[i*e.Vocab:][:e.Vocab], one, "token %d", i)
	}
}

// TestFloatActivations: dequantized weights times floats are close to the quantized activations' result, and far from equal to it.
func TestFloatActivations(t *testing.T) {
	logits := func(w decode.Weights) []float32 {
		e := engine(t, "stories260K-q8.bin", decode.Options{Weights: w})
		l, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: []int{1, 403, 407}, Want: 1}})
		require.NoError(t, err)
		return slices.Clone(l)
	}
	integers, floats := logits(decode.Weights{}), logits(decode.Weights{Float: true})
	assert.NotEqual(t, integers, floats)
	assert.InDeltaSlice(t, floats, integers, 0.3)
	e := engine(t, "stories260K.bin", decode.Options{Weights: decode.Weights{Group: 8, Float: true}})
	l, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: []int{1, 403, 407}, Want: 1}})
	require.NoError(t, err)
	assert.Equal(t, floats, l, "the file holds what Group makes")
}

func TestWeightsThatCannotBe(t *testing.T) {
	m, err := checkpoint.Open(llm(t) + "/stories260K.bin")
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	for text, w := range map[string]decode.Weights{
		"groups of -1":              {Group: -1},
		"codes of 5 bits":           {Group: 8, Bits: 5},
		"groups of 7 do not divide": {Group: 7},
	} {
		_, err := decode.New(context.Background(), m, decode.Options{Weights: w})
		assert.ErrorContains(t, err, text)
	}
}

// TestTokensDoNotAllocate: in the long run a token of decoding allocates nothing.
func TestTokensDoNotAllocate(t *testing.T) {
	if racing {
		t.Skip("pools drop things at random under the race detector")
	}
	for _, c := range []struct {
		file string
		w    decode.Weights
	}{{"stories260K.bin", decode.Weights{}}, {"stories260K.bin", decode.Weights{Group: 4}}, {"stories260K-q8.bin", decode.Weights{}}} {
		for _, threads := range []int{1, 2} {
			e := engine(t, c.file, decode.Options{Weights: c.w, Threads: threads})
			cache := decode.NewCache(&e.Config)
			batch := []decode.Sequence{{Cache: cache, Tokens: []int{5}, Want: 1}}
			assert.Zero(t, testing.AllocsPerRun(200, func() {
				if cache.Len() == 100 {
					cache.Clear()
				}
				_, _ = e.Forward(context.Background(), batch)
			}), "%+v, %d threads", c, threads)
		}
	}
}
