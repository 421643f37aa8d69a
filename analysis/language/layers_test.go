package language_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
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
	q, err := w.Quantize(context.Background(), m, 2)
	require.NoError(t, err)
	cfg := language.LayersConfig{Model: languageEngine(t, m, decode.Weights{}), Source: m, Quantized: q, Weights: w}
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
	// Float, embedding and all; each layer twice; the matrices in front of attention and the three behind it, of two layers.
	assert.Equal(t, 3+2+(4*4+3*3+4*2+3*1)/4., r.Forwards)

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

	// The logits are the same where one layer is in memory.
	cfg = layersConfig(t, m, w)
	cfg.Alone = true
	cfg.Model, err = decode.New(ctx, m, decode.Options{Threads: 2, Layered: true})
	require.NoError(t, err)
	alone, err := language.RankMatrices(ctx, each(texts), cfg)
	require.NoError(t, err)
	want := slices.Clone(r.Layerwise)
	for i := range want {
		want[i].Local, want[i].Clip, want[i].Round, want[i].Activation = nil, nil, nil, nil
	}
	assert.Equal(t, want, alone.Layerwise)
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
	_, err = decode.Weights{Group: 7}.Quantize(ctx, m, 1)
	assert.ErrorContains(t, err, "embedding has 640 elements, which groups of 7 do not divide")
	cfg.Parts = nil
	_, err = language.RankMatrices(ctx, each(passages(1, 9)), cfg)
	assert.ErrorContains(t, err, "no matrix to quantize")
	stopped, stop := context.WithCancel(ctx)
	stop()
	_, err = language.RankMatrices(stopped, each(passages(1, 9)), layersConfig(t, m, decode.Weights{Group: 8}))
	assert.ErrorIs(t, err, context.Canceled)
}

// What is restarted in front of a matrix is what a run from the first token gives: codes of 8 and of 4 bits, floats and integers, experts.
func TestRankMatricesRestarts(t *testing.T) {
	ctx := context.Background()
	experts := languageShape
	experts.Family, experts.Experts, experts.ExpertsUsed, experts.ExpertHidden, experts.SharedHidden = checkpoint.Qwen2MoE, 4, 2, 16, 24
	experts.Tied, experts.Bias, experts.Windows = false, true, []int{0, 7}
	llama, mixture := languageModel(t, 3, nil), weightstest.Model(t, experts, 5)
	texts := passages(5, 9, 2, 64, 31)
	for _, c := range []struct {
		m *checkpoint.Model
		w decode.Weights
	}{{llama, decode.Weights{Group: 8}}, {llama, decode.Weights{Group: 8, Bits: 4}},
		{llama, decode.Weights{Group: 8, Bits: 4, Float: true, Search: true}}, {mixture, decode.Weights{Group: 8, Bits: 4}}} {
		m, w := c.m, c.w
		cfg := layersConfig(t, m, w)
		cfg.Parts = slices.DeleteFunc(cfg.Parts, func(p checkpoint.Part) bool { return p.Role.Float() })
		cfg.Cache, cfg.Rows = decode.CacheInt8, 50
		r, err := language.RankMatrices(ctx, each(texts), cfg)
		require.NoError(t, err)
		require.Len(t, r.Layerwise, len(cfg.Parts)+2*2)
		for _, p := range cfg.Parts {
			restore, err := cfg.Model.Replace(ctx, m, p, w) // not what Quantize has made
			require.NoError(t, err)
			want, err := language.Eval(ctx, each(texts), language.Config{Model: cfg.Model, Float: languageEngine(t, m, decode.Weights{})})
			require.NoError(t, err)
			restore()
			got := r.Layerwise[slices.IndexFunc(r.Layerwise, func(d language.MatrixDamage) bool { return d.Node == p.String() })]
			assert.Equal(t, []any{want.KL, want.KLError, want.NLLChange, want.NLLChangeError, want.Flips, want.Top},
				[]any{got.KL, got.KLError, got.NLLChange, got.NLLChangeError, got.Flips, got.Top}, "%v: %s", w, p)
		}
		cached, err := decode.New(ctx, m, decode.Options{Threads: 1, Cache: cfg.Cache, Weights: w})
		require.NoError(t, err)
		want, err := language.Eval(ctx, each(texts), language.Config{Model: cached, Float: cfg.Model})
		require.NoError(t, err)
		assert.Equal(t, []any{want.KL, want.NLLChange, want.Flips}, []any{r.Whole.KL, r.Whole.NLLChange, r.Whole.Flips})
	}
}

// locals are what is known of the error at the output of a node.
func locals(t *testing.T, r *language.Layers, node string) (local, clip, round, activation float64) {
	t.Helper()
	for _, d := range r.Layerwise {
		if d.Node == node {
			require.InDelta(t, *d.Local, *d.Clip+*d.Round+*d.Activation, 1e-9**d.Local, node)
			return *d.Local, *d.Clip, *d.Round, *d.Activation
		}
	}
	t.Fatal(node)
	return
}

// The local error of a matrix in float64, by its definition.
func TestRankMatricesTellsWhere(t *testing.T) {
	ctx := context.Background()
	m := languageModel(t, 3, nil)
	texts := passages(5, 9, 31)
	w := decode.Weights{Group: 8, Bits: 4, Float: true}
	cfg := layersConfig(t, m, w)
	cfg.Cache = decode.CacheInt8
	r, err := language.RankMatrices(ctx, each(texts), cfg)
	require.NoError(t, err)
	part := checkpoint.Part{Role: checkpoint.Gate, Layer: 1}
	source, q := m.Of(part).All(), cfg.Quantized.Of(part)
	codes, scales := make([]int8, q.Len()), make([]float32, q.Len()/8)
	q.Codes(codes, scales, 0)
	var signal, whole, clip, round float64
	var ids [][]int
	for _, p := range texts {
		ids = append(ids, p.IDs[:len(p.IDs)-1])
	}
	require.NoError(t, cfg.Model.Walk(ctx, ids, decode.Walker{Inputs: func(parts []checkpoint.Part, x []float32, cols int) error {
		for ; parts[0] == part && len(x) > 0; x = x[cols:] {
			for row := range q.Rows {
				var y, c, e float64
				for i, v := range x[:cols] {
					at := row*cols + i
					s, f := float64(scales[at/8]), float64(source[at])
					limited := min(max(f, min(-8*s, 7*s)), max(-8*s, 7*s))
					y += f * float64(v)
					c += (limited - f) * float64(v)
					e += (float64(codes[at])*s - f) * float64(v)
				}
				signal, whole, clip, round = signal+y*y, whole+e*e, clip+c*e, round+(e-c)*e
			}
		}
		return nil
	}}))
	gotLocal, gotClip, gotRound, gotActivation := locals(t, r, "gate of layer 1")
	assert.InEpsilon(t, whole/signal, gotLocal, 1e-4)
	assert.InDelta(t, clip/signal, gotClip, 1e-4*gotLocal)
	assert.InDelta(t, round/signal, gotRound, 1e-4*gotLocal)
	assert.Positive(t, gotClip)
	assert.Zero(t, gotActivation)

	local, clipped, _, _ := locals(t, r, "embedding")
	assert.Greater(t, local, clipped)
	local, clipped, _, _ = locals(t, r, "values of layer 1")
	assert.Positive(t, local)
	assert.Zero(t, clipped)

	cfg = layersConfig(t, m, decode.Weights{Group: 8})
	r, err = language.RankMatrices(ctx, each(texts), cfg)
	require.NoError(t, err)
	for _, part := range cfg.Parts[1:] {
		_, clipped, rounded, activation := locals(t, r, part.String())
		assert.Zero(t, clipped, "the largest weight of a group has the last code")
		assert.Positive(t, rounded)
		assert.Positive(t, activation)
	}
}
