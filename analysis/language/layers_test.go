package language_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// outlier makes one weight of every group of a part so large that the others of the group are lost.
func outlier(part checkpoint.Part) func(p checkpoint.Part, x []float32) {
	return func(p checkpoint.Part, x []float32) {
		for i := 0; p == part && i < len(x); i += 8 {
			x[i] = 12
		}
	}
}

func layersConfig(t *testing.T, m *checkpoint.Model, w decode.Weights) language.LayersConfig {
	t.Helper()
	e := languageEngine(t, m, decode.Weights{})
	cfg := language.LayersConfig{Model: e, Quantize: func(ctx context.Context, p checkpoint.Part) (func(), error) {
		return e.Replace(ctx, m, p, w)
	}}
	for _, p := range m.Parts() {
		if !p.Role.Vector() {
			cfg.Parts = append(cfg.Parts, p)
		}
	}
	return cfg
}

func TestRankMatrices(t *testing.T) {
	ctx := context.Background()
	planted := checkpoint.Part{Role: checkpoint.Gate, Layer: 1}
	m := languageModel(t, 3, outlier(planted))
	w := decode.Weights{Group: 8}
	texts := passages(5, 9, 2, 64, 31, 17)
	cfg := layersConfig(t, m, w)
	r, err := language.RankMatrices(ctx, each(texts), cfg)
	require.NoError(t, err)
	require.Len(t, r.Layerwise, 1+2*7)
	assert.Equal(t, "gate of layer 1", r.Layerwise[0].Node, "the planted fault comes first")
	assert.Equal(t, []any{"gate", 1, int64(24 * 16)}, []any{r.Layerwise[0].Op, r.Layerwise[0].Layer, r.Layerwise[0].Parameters})
	assert.Greater(t, r.Layerwise[0].KL, 2*r.Layerwise[1].KL)
	assert.Greater(t, r.Layerwise[0].NSR, r.Layerwise[1].NSR)
	for i, d := range r.Layerwise {
		assert.True(t, i == 0 || d.KL <= r.Layerwise[i-1].KL)
		assert.Positive(t, d.KL, d.Node)
		assert.Positive(t, d.NSR, d.Node)
		assert.Less(t, d.Cosine, 1., d.Node)
	}
	assert.Equal(t, []int{len(texts), 8 + 1 + 63 + 30 + 16}, []int{r.Samples, r.Tokens})
	assert.Equal(t, 17., r.Forwards)

	// All together is the quantized model.
	whole, err := language.Eval(ctx, each(texts), language.Config{Model: languageEngine(t, m, w), Float: cfg.Model})
	require.NoError(t, err)
	assert.Equal(t, []any{whole.KL, whole.KLError, whole.NLLChange, whole.NLLChangeError, whole.Flips, whole.FlipRate},
		[]any{r.Whole.KL, r.Whole.KLError, r.Whole.NLLChange, r.Whole.NLLChangeError, r.Whole.Flips, r.Whole.FlipRate})

	for _, c := range [][2]int{{1, 1}, {40, 3}, {70, 2}} {
		cfg := layersConfig(t, m, w)
		cfg.Rows, cfg.Threads = c[0], c[1]
		again, err := language.RankMatrices(ctx, each(texts), cfg)
		require.NoError(t, err)
		require.Equal(t, r, again, "%d rows", c[0])
	}
}

func TestRankMatricesFails(t *testing.T) {
	ctx := context.Background()
	m := languageModel(t, 3, nil)
	cfg := layersConfig(t, m, decode.Weights{Group: 8})
	_, err := language.RankMatrices(ctx, each(nil), cfg)
	assert.ErrorContains(t, err, "there is no text")
	_, err = language.RankMatrices(ctx, each(passages(1, 9, 1)), cfg)
	assert.ErrorContains(t, err, "line 2: 1 tokens")
	broken := errors.New("broken")
	_, err = language.RankMatrices(ctx, func(context.Context) (*language.Passage, error) { return nil, broken }, cfg)
	assert.ErrorIs(t, err, broken)
	cfg = layersConfig(t, m, decode.Weights{Group: 7})
	_, err = language.RankMatrices(ctx, each(passages(1, 9)), cfg)
	assert.ErrorContains(t, err, "line 1 to line 1: embedding: ")
	cfg.Parts = nil
	_, err = language.RankMatrices(ctx, each(passages(1, 9)), cfg)
	assert.ErrorContains(t, err, "no matrix to quantize")
	stopped, stop := context.WithCancel(ctx)
	stop()
	_, err = language.RankMatrices(stopped, each(passages(1, 9)), layersConfig(t, m, decode.Weights{Group: 8}))
	assert.ErrorIs(t, err, context.Canceled)
}
