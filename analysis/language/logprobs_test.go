package language_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// chunksOf are the passages of a file whose model has token 1 in front of texts.
func chunksOf(p *language.LogProbs) (list []*language.Passage) {
	for i := range p.Chunks {
		ids := append([]int{1}, p.Tokens[i*p.Context+1:][:p.Context-1]...)
		list = append(list, &language.Passage{Name: "chunk", IDs: ids, First: p.Context - language.Scored(p.Context)})
	}
	return list
}

// written evaluates chunks and returns the file of their probabilities.
func written(t *testing.T, e *decode.Engine, head language.LogProbs) ([]byte, *language.Result) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, head.WriteHeader(&b))
	r, err := language.Eval(context.Background(), each(chunksOf(&head)), language.Config{Model: e, Threads: 2,
		Logits: func(row []float32) error { return head.WriteRow(&b, row) }})
	require.NoError(t, err)
	return b.Bytes(), r
}

// TestLogProbsOfLlamaCpp: a file that llama.cpp made of a trained model (testdata/llama_logprobs.py) is ours, but for the last bits of
// logits, and the model is held against it.
func TestLogProbsOfLlamaCpp(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/")
	}
	m, err := checkpoint.Open(dir + "/models/llm/stories260K.bin")
	require.NoError(t, err)
	defer m.Close()
	e := languageEngine(t, m, decode.Weights{})
	theirs, err := os.ReadFile("testdata/stories260K.logprobs")
	require.NoError(t, err)
	p, err := language.ParseLogProbs(theirs)
	require.NoError(t, err)
	assert.Equal(t, []int{32, 512, 2}, []int{p.Context, p.Vocab, p.Chunks})

	ours, _ := written(t, e, *p)
	require.Len(t, ours, len(theirs))
	head := len(ours) - 2*15*(8+2*512)
	assert.Equal(t, theirs[:head], ours[:head])
	codes := 0
	for at := head; at < len(ours); at += 8 + 2*512 {
		for i := at + 8; i < at+8+2*512; i += 2 {
			d := int(binary.LittleEndian.Uint16(ours[i:])) - int(binary.LittleEndian.Uint16(theirs[i:]))
			require.LessOrEqual(t, max(d, -d), 2)
			if d != 0 {
				codes++
			}
		}
	}
	assert.Less(t, codes, 300, "of %d", 30*512)

	base, err := language.ParseLogProbs(theirs)
	require.NoError(t, err)
	r, err := language.Eval(context.Background(), each(chunksOf(p)), language.Config{Model: e, Base: base})
	require.NoError(t, err)
	assert.Equal(t, 30, r.Tokens)
	assert.InDelta(t, r.FloatMeanNLL, r.MeanNLL, 1e-4)
	assert.Less(t, r.KL, 1e-4)
	assert.Zero(t, r.Flips)
}

// TestLogProbsRoundTrip: a model is what it wrote, whatever the batches, and another one is as far from the file as from the model.
func TestLogProbsRoundTrip(t *testing.T) {
	m := languageModel(t, 5, nil)
	e, q := languageEngine(t, m, decode.Weights{}), languageEngine(t, m, decode.Weights{Group: 8, Bits: 4})
	head := language.LogProbs{Context: 12, Vocab: languageShape.Vocab, Chunks: 3}
	head.Tokens = passages(3, 36)[0].IDs
	b, plain := written(t, e, head)
	assert.Equal(t, 15, plain.Tokens)
	against := func(rows int, cfg language.Config) *language.Result {
		cfg.Rows = rows
		r, err := language.Eval(context.Background(), each(chunksOf(&head)), cfg)
		require.NoError(t, err)
		return r
	}
	for _, rows := range []int{1, 5, 100} {
		base := func() *language.LogProbs {
			p, err := language.ParseLogProbs(b)
			require.NoError(t, err)
			return p
		}
		own := against(rows, language.Config{Model: e, Base: base()})
		assert.InDelta(t, plain.MeanNLL, own.FloatMeanNLL, 1e-4)
		assert.InDelta(t, 0, own.KL, 1e-4)
		want := against(rows, language.Config{Model: q, Float: e})
		got := against(rows, language.Config{Model: q, Base: base()})
		assert.InDelta(t, want.KL, got.KL, 2e-3*want.KL+1e-5)
		assert.InDelta(t, want.NLLChange, got.NLLChange, 1e-4)
		assert.Equal(t, want.Flips, got.Flips)
	}
	for name, bad := range map[string][]byte{"short": b[:len(b)-2], "long": append(bytes.Clone(b), 0), "header": b[:12], "magic": b[1:]} {
		_, err := language.ParseLogProbs(bad)
		assert.Error(t, err, name)
	}
	bad := bytes.Clone(b)
	bad[8+12] = 200 // a token outside of the vocabulary
	_, err := language.ParseLogProbs(bad)
	assert.ErrorContains(t, err, "outside of the vocabulary")
}

// TestHalfOfATextIsScored: the tokens in front of the first one that is scored are read, and not counted.
func TestHalfOfATextIsScored(t *testing.T) {
	e := languageEngine(t, languageModel(t, 6, nil), decode.Weights{})
	text := passages(7, 30)[0]
	var all []float64
	run := func(first, rows int) *language.Result {
		p := *text
		p.First = first
		all = nil
		r, err := language.Eval(context.Background(), each([]*language.Passage{&p}), language.Config{Model: e, Rows: rows,
			Token: func(s language.TokenScore) error {
				assert.Equal(t, text.IDs[s.Position], s.ID)
				all = append(all, s.NLL)
				return nil
			}})
		require.NoError(t, err)
		return r
	}
	run(0, 100)
	whole := all
	require.Len(t, whole, 29)
	for _, rows := range []int{1, 7, 100} {
		r := run(17, rows)
		assert.Equal(t, 13, r.Tokens)
		assert.Equal(t, whole[16:], all)
	}
}

// TestTheCacheAlone: what rounding keys and values does is measured apart from what rounding weights does.
func TestTheCacheAlone(t *testing.T) {
	m := languageModel(t, 8, nil)
	ctx := context.Background()
	engine := func(w decode.Weights, kind decode.CacheType) *decode.Engine {
		e, err := decode.New(ctx, m, decode.Options{Threads: 1, Weights: w, Cache: kind})
		require.NoError(t, err)
		return e
	}
	texts := func() language.Passages { return each(passages(9, 20, 30)) }
	eval := func(cfg language.Config) *language.Result {
		r, err := language.Eval(ctx, texts(), cfg)
		require.NoError(t, err)
		return r
	}
	four := decode.Weights{Group: 8, Bits: 4, Float: true}
	floats := engine(decode.Weights{}, decode.CacheF32)
	for _, kind := range []decode.CacheType{decode.CacheInt8, decode.CacheFP8, decode.CacheF16} {
		both := engine(four, kind)
		r := eval(language.Config{Model: both, Float: floats, Cache: true})
		require.NotNil(t, r.CacheChange)
		apart := eval(language.Config{Model: both, Float: engine(four, decode.CacheF32)})
		assert.Equal(t, apart.Change, r.CacheChange, "%s", kind)
		assert.Positive(t, r.CacheChange.KL, "%s", kind)
		assert.Less(t, r.CacheChange.KL, r.KL, "%s", kind)
		alone := eval(language.Config{Model: engine(decode.Weights{}, kind), Float: floats})
		own := engine(decode.Weights{}, kind)
		assert.Equal(t, alone.Change, eval(language.Config{Model: own, Float: own}).Change, "an engine against itself")
	}
	none := eval(language.Config{Model: engine(four, decode.CacheF32), Float: floats, Cache: true})
	assert.Zero(t, none.CacheChange.KL)
	_, err := decode.New(ctx, m, decode.Options{Cache: decode.CacheQ8})
	assert.ErrorContains(t, err, "multiple of 32")
	_, err = decode.ParseCacheType("int3")
	assert.ErrorContains(t, err, "unknown type")
}
