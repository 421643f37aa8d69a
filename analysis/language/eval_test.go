package language_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// languageShape has grouped-query attention, and rows that groups of 8 divide.
var languageShape = checkpoint.Config{Family: checkpoint.Llama, Dim: 16, Hidden: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 4,
	Vocab: 40, Context: 64,
	NormEps: 1e-5, RopeTheta: 10000, Tied: true, BOS: 1}

// languageModel has random weights, a function of the seed. edit may change the elements of a part.
func languageModel(t testing.TB, seed uint64, edit func(p checkpoint.Part, x []float32)) *checkpoint.Model {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	var tensors []*checkpoint.Tensor
	for _, p := range languageShape.Parts() {
		rows, cols := languageShape.Shape(p.Role)
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(random.NormFloat64()) * 0.4
		}
		if edit != nil {
			edit(p, x)
		}
		b, err := binary.Append(nil, binary.LittleEndian, x)
		require.NoError(t, err)
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, checkpoint.F32, b, nil, 0))
	}
	m, err := checkpoint.New(languageShape, "test", tensors, nil)
	require.NoError(t, err)
	return m
}

func languageEngine(t testing.TB, m *checkpoint.Model, w decode.Weights) *decode.Engine {
	t.Helper()
	e, err := decode.New(context.Background(), m, decode.Options{Threads: 1, Weights: w})
	require.NoError(t, err)
	return e
}

// passages are random texts of the given lengths.
func passages(seed uint64, lengths ...int) []*language.Passage {
	random := rand.New(rand.NewPCG(seed, 1))
	var out []*language.Passage
	for i, n := range lengths {
		p := &language.Passage{Name: fmt.Sprintf("line %d", i+1), IDs: []int{1}}
		for len(p.IDs) < n {
			p.IDs = append(p.IDs, random.IntN(languageShape.Vocab))
		}
		out = append(out, p)
	}
	return out
}

func each(list []*language.Passage) language.Passages {
	return func(context.Context) (*language.Passage, error) {
		if len(list) == 0 {
			return nil, io.EOF
		}
		p := list[0]
		list = list[1:]
		return p, nil
	}
}

// naive is what Eval has to give: every text by itself, a token at a time, probabilities by their definition.
func naive(t *testing.T, q, f *decode.Engine, texts []*language.Passage) (scores []language.Score) {
	t.Helper()
	probabilities := func(e *decode.Engine, cache *decode.Cache, id int) []float64 {
		logits, err := e.Forward(context.Background(), []decode.Sequence{{Cache: cache, Tokens: []int{id}, Want: 1}})
		require.NoError(t, err)
		p, sum := make([]float64, len(logits)), 0.0
		for i, x := range logits {
			p[i] = math.Exp(float64(x))
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	largest := func(p []float64) (best int) {
		for i := range p {
			if p[i] > p[best] {
				best = i
			}
		}
		return best
	}
	for _, text := range texts {
		s := language.Score{Name: text.Name, Tokens: len(text.IDs) - 1}
		cq, cf := decode.NewCache(&q.Config), decode.NewCache(&f.Config)
		for i, next := range text.IDs[1:] {
			pq, pf := probabilities(q, cq, text.IDs[i]), probabilities(f, cf, text.IDs[i])
			s.NLL -= math.Log(pq[next])
			s.FloatNLL -= math.Log(pf[next])
			for k := range pf {
				s.KL += pf[k] * math.Log(pf[k]/pq[k])
			}
			if largest(pq) != largest(pf) {
				s.Flips++
			}
			five := func(p []float64) []int {
				order := make([]int, len(p))
				for i := range order {
					order[i] = i
				}
				slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
				return order[:5]
			}
			for _, k := range five(pf) {
				if slices.Contains(five(pq), k) {
					s.Top += 0.2
				}
			}
		}
		scores = append(scores, s)
	}
	return scores
}

func TestEvalText(t *testing.T) {
	ctx := context.Background()
	m := languageModel(t, 3, nil)
	q, f := languageEngine(t, m, decode.Weights{Group: 8, Bits: 4}), languageEngine(t, m, decode.Weights{})
	texts := passages(5, 9, 2, 64, 31, 17, 2, 40)
	want := naive(t, q, f, texts)

	var first *language.Result
	var firstScores []language.Score
	for _, c := range []language.Config{{}, {Rows: 1}, {Rows: 7, Threads: 3}, {Rows: 30}, {Rows: 64, Threads: 2}} {
		var scores []language.Score
		c.Model, c.Float, c.Keep = q, f, 12
		c.Each = func(s language.Score) error { scores = append(scores, s); return nil }
		r, err := language.Eval(ctx, each(texts), c)
		require.NoError(t, err)
		if first == nil {
			first, firstScores = r, scores
		}
		require.Equal(t, first, r, "%d rows", c.Rows)
		require.Equal(t, firstScores, scores, "%d rows", c.Rows)
	}
	require.Len(t, first.PerToken, 12, "as many as are asked for")
	kept := language.Score{Name: texts[0].Name, Tokens: 8} // the first text has 9 ids, the second 2, and so has 3 of the third
	for i, x := range first.PerToken[:8] {
		require.Equal(t, []any{texts[0].Name, texts[0].IDs[i], texts[0].IDs[i+1]}, []any{x.Sequence, x.Before, x.ID})
		require.InDelta(t, x.NLL-x.FloatNLL, x.Change, 1e-12)
		if kept.NLL, kept.FloatNLL, kept.KL = kept.NLL+x.NLL, kept.FloatNLL+x.FloatNLL, kept.KL+x.KL; x.Flip {
			kept.Flips++
		}
	}
	kept.Top = firstScores[0].Top // which is not kept by token
	require.Equal(t, firstScores[0], kept)
	require.Equal(t, texts[1].Name, first.PerToken[8].Sequence)
	var nll, floats, kl, top float64
	flips, tokens := 0, 0
	require.Len(t, firstScores, len(want))
	for i, w := range want {
		s := firstScores[i]
		require.Equal(t, []any{w.Name, w.Tokens, w.Flips}, []any{s.Name, s.Tokens, s.Flips})
		require.InDelta(t, w.NLL, s.NLL, 1e-9)
		require.InDelta(t, w.FloatNLL, s.FloatNLL, 1e-9)
		require.InDelta(t, w.KL, s.KL, 1e-9)
		require.InDelta(t, w.Top, s.Top, 1e-9)
		top += w.Top
		nll, floats, kl, flips, tokens = nll+w.NLL, floats+w.FloatNLL, kl+w.KL, flips+w.Flips, tokens+w.Tokens
	}
	n := float64(tokens)
	require.Equal(t, []int{len(want), tokens, flips, 0}, []int{first.Sequences, first.Tokens, first.Flips, first.Cut})
	require.InDeltaSlice(t, []float64{nll / n, math.Exp(nll / n), floats / n, math.Exp(floats / n), (nll - floats) / n, kl / n,
		float64(flips) / n, top / n},
		[]float64{first.MeanNLL, first.Perplexity, first.FloatMeanNLL, first.FloatPerplexity, first.NLLChange, first.KL, first.FlipRate,
			first.Top}, 1e-9)
	require.Positive(t, first.KL)
	require.Positive(t, first.Flips, "4 bits change something, else this test says nothing")
	require.InDelta(t, first.Perplexity**first.MeanNLLError, *first.PerplexityError, 1e-12)
}

// TestEvalTextOfTheSameModel: a model has no divergence from itself, and float alone is held against nothing.
func TestEvalTextOfTheSameModel(t *testing.T) {
	m := languageModel(t, 3, nil)
	a, b := languageEngine(t, m, decode.Weights{}), languageEngine(t, m, decode.Weights{})
	r, err := language.Eval(context.Background(), each(passages(1, 20, 30)), language.Config{Model: a, Float: b})
	require.NoError(t, err)
	assert.InDelta(t, 0, r.KL, 1e-14)
	assert.Zero(t, r.Flips)
	assert.Equal(t, []float64{0, 0}, []float64{r.NLLChange, *r.NLLChangeError})
	r, err = language.Eval(context.Background(), each(passages(1, 20)), language.Config{Model: a})
	require.NoError(t, err)
	assert.Nil(t, r.Change)
	assert.Nil(t, r.MeanNLLError, "one sequence says nothing about others")
}

func TestEvalTextFails(t *testing.T) {
	ctx := context.Background()
	m := languageModel(t, 3, nil)
	e := languageEngine(t, m, decode.Weights{})
	run := func(ctx context.Context, texts language.Passages, cfg language.Config) error {
		if cfg.Model == nil {
			cfg.Model = e
		}
		_, err := language.Eval(ctx, texts, cfg)
		return err
	}
	assert.ErrorContains(t, run(ctx, each(nil), language.Config{}), "there is no text")
	assert.ErrorContains(t, run(ctx, each(passages(1, 20, 1)), language.Config{}), "line 2: 1 tokens")
	assert.ErrorContains(t, run(ctx, each(passages(1, 20, 66)), language.Config{}),
		"line 1 to line 2: decode: sequence 1: position 64 is beyond the context of 64")
	broken := errors.New("broken")
	assert.ErrorIs(t, run(ctx, func(context.Context) (*language.Passage, error) { return nil, broken }, language.Config{}), broken)
	assert.ErrorIs(t, run(ctx, each(passages(1, 20)), language.Config{Each: func(language.Score) error { return broken }}), broken)
	stopped, stop := context.WithCancel(ctx)
	stop()
	assert.ErrorIs(t, run(stopped, each(passages(1, 20)), language.Config{}), context.Canceled)

	huge := languageModel(t, 3, func(p checkpoint.Part, x []float32) {
		if p.Role == checkpoint.FinalNorm || p.Role == checkpoint.Embedding {
			for i := range x {
				x[i] *= 1e30
			}
		}
	})
	assert.ErrorContains(t, run(ctx, each(passages(1, 20)), language.Config{Model: languageEngine(t, huge, decode.Weights{})}), "not finite")
}
