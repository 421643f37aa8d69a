package language_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// TestJudge: of a change for the better, one for the worse and one that changes nothing only the first is kept, and it stays in the model.
// The texts are the model's own, so that its float weights are the best there are.
func TestJudge(t *testing.T) {
	ctx := context.Background()
	m := languageModel(t, 5, nil)
	float := languageEngine(t, m, decode.Weights{})
	var texts []*language.Passage
	for first := range 24 { // greedy continuations of every beginning
		p := &language.Passage{Name: "own", IDs: []int{1, first}}
		cache := decode.NewCache(&m.Config)
		next := []int{1, first}
		for range 10 {
			logits, err := float.Forward(ctx, []decode.Sequence{{Cache: cache, Tokens: next, Want: 1}})
			require.NoError(t, err)
			next = []int{decode.Largest(logits)}
			p.IDs = append(p.IDs, next[0])
		}
		texts = append(texts, p)
	}
	coarse := decode.Weights{Group: 8, Bits: 4, Float: true}
	engine := languageEngine(t, m, coarse)
	upside := languageModel(t, 5, func(p checkpoint.Part, x []float32) {
		for i := range x {
			if p.Role == checkpoint.Down {
				x[i] *= -5
			}
		}
	})
	forms := map[checkpoint.Role]decode.Weights{checkpoint.Classifier: {Float: true}, checkpoint.Embedding: {Float: true},
		checkpoint.Key: coarse}
	cfg := language.JudgeConfig{Model: engine, Name: "finer", Roles: []checkpoint.Role{checkpoint.Embedding, checkpoint.Key, checkpoint.Down},
		Texts: func() (language.Passages, error) { return each(texts), nil },
		Try: func(ctx context.Context, p checkpoint.Part) (func(), error) {
			if p.Role == checkpoint.Down {
				return engine.Replace(ctx, upside, p, coarse)
			}
			return engine.Replace(ctx, m, p, forms[p.Role])
		}}
	for _, p := range m.Parts() {
		if !p.Role.Vector() && p.Role != checkpoint.Classifier {
			cfg.Parts = append(cfg.Parts, p)
		}
	}
	before, err := language.Eval(ctx, each(texts), language.Config{Model: engine})
	require.NoError(t, err)
	kept, judged, err := language.Judge(ctx, cfg)
	require.NoError(t, err)
	require.Len(t, judged, 3)
	assert.Equal(t, []checkpoint.Role{checkpoint.Embedding}, kept)
	assert.Negative(t, judged[0].NLLChange)
	assert.Less(t, judged[0].NLLChange, -2**judged[0].Error)
	assert.Zero(t, judged[1].NLLChange, "the same weights")
	assert.Positive(t, judged[2].NLLChange)
	assert.Regexp(t, `^finer of down: mean NLL \+[\d.]+ ± [\d.]+ on 24 sequences: not kept$`, judged[2].String())
	after, err := language.Eval(ctx, each(texts), language.Config{Model: engine})
	require.NoError(t, err)
	assert.InDelta(t, judged[0].NLLChange, after.MeanNLL-before.MeanNLL, 1e-12, "what was not kept is undone")

	cfg.Texts = func() (language.Passages, error) { return each(texts[:1]), nil }
	_, _, err = language.Judge(ctx, cfg)
	assert.ErrorContains(t, err, "two or more are needed")
}
