package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/tensor"
)

// The trained models predict the texts of an independent evaluation as well as that says, sequence by sequence.
func TestEvalTextTrained(t *testing.T) {
	var want map[string]struct {
		Tokens     int     `json:"tokens_scored"`
		Mean       float64 `json:"mean_nll"`
		Perplexity float64 `json:"perplexity"`
		Sequences  []struct {
			IDs []int   `json:"ids"`
			NLL float64 `json:"nll"`
		} `json:"sequences"`
	}
	tokenizers := trained(t)
	require.NoError(t, json.Unmarshal(read(t, llm(t, "expected-perplexity.json")), &want))
	for model, tokenizer := range tokenizers {
		inFolder(t)
		l, err := qwb.OpenLanguage(llm(t, model+".bin"), tokenizer)
		require.NoError(t, err)
		var text []byte
		for _, s := range want[model].Sequences {
			text = append(text, decode.Text(l, s.IDs[0], s.IDs[1:])+"\n\n"...)
		}
		require.NoError(t, l.Close())
		write(t, "t.txt", text)
		o := done(t, "eval", llm(t, model+".bin"), "--tokenizer", tokenizer, "--text", "t.txt", "--answers", "a.tsv", "--json").object(t)
		assert.EqualValues(t, want[model].Tokens, o["tokens"])
		assert.InDelta(t, want[model].Mean, o["mean_nll"], 1e-6)
		assert.InDelta(t, want[model].Perplexity, o["perplexity"], 1e-5)
		lines := strings.Split(strings.TrimSpace(string(read(t, "a.tsv"))), "\n")
		require.Len(t, lines, 1+len(want[model].Sequences))
		for i, s := range want[model].Sequences {
			cells := strings.Split(lines[1+i], "\t")
			nll, err := strconv.ParseFloat(cells[2], 64)
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(len(s.IDs)-1), cells[1])
			require.InDelta(t, s.NLL/float64(len(s.IDs)-1), nll/float64(len(s.IDs)-1), 1e-6, "%s, %s", model, cells[0])
		}
	}
}

// evalText runs eval on the text in t.txt and returns its object.
func evalText(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return done(t, append([]string{"eval", "m.bin", "--text", "t.txt", "--json"}, args...)...).object(t)
}

func TestEvalText(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte("a cab\n\n \nabba, abracadabra\nthe second half of this line is beyond the context of the model\n"))
	r := done(t, "eval", "m.bin", "--text", "t.txt")
	require.Contains(t, r.stdout, "3 sequences")
	require.Contains(t, r.stderr, "1 of 3 sequences are longer than the 40 positions")

	float := evalText(t)
	require.Equal(t, "fp32", float["mode"])
	require.EqualValues(t, 3, float["sequences"])
	require.EqualValues(t, 1, float["cut"])
	require.NotContains(t, float, "kl")
	require.InDelta(t, math.Exp(float["mean_nll"].(float64)), float["perplexity"], 1e-9)
	for _, c := range []struct {
		mode, weights string
		args          []string
	}{
		{"int8", "int8 in groups of 8", []string{"--group-size", "8"}},
		{"int8", "int4 in groups of 16", []string{"--bits", "4"}},
		{"int8", "int8 in groups of 16, searched scales", []string{"--method", "range"}},
		{"sim", "int4 in groups of 8", []string{"--bits", "4", "--group-size", "8", "--mode", "sim"}},
	} {
		o := evalText(t, c.args...)
		require.Equal(t, []any{c.mode, c.weights}, []any{o["mode"], o["weights"]})
		require.Equal(t, float["mean_nll"], o["float_mean_nll"])
		require.Equal(t, float["tokens"], o["tokens"])
		require.Positive(t, o["kl"])
		require.NotNil(t, o["kl_error"])
		require.InDelta(t, o["flips"].(float64)/o["tokens"].(float64), o["flip_rate"], 1e-12)
		delete(o, "seconds")
		again := evalText(t, append(c.args, "--threads", "3")...)
		delete(again, "seconds")
		require.Equal(t, o, again)
	}
	require.Less(t, evalText(t, "--group-size", "8")["kl"], evalText(t, "--group-size", "8", "--bits", "4")["kl"])
	require.Contains(t, done(t, "eval", "m.bin", "--text", "t.txt", "--bits", "4").stderr, "groups of 16 elements")
}

// A checkpoint that holds quantized weights is held against those as floats, or against the checkpoint it was made of.
func TestEvalTextOfQuantizedCheckpoint(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte("a cab\nabba, abracadabra\n"))
	done(t, "export", "m.bin", "--format", "q80", "--group-size", "8", "-o", "q.bin")
	eval := func(args ...string) map[string]any {
		o := done(t, append([]string{"eval", "q.bin", "--text", "t.txt", "--json"}, args...)...).object(t)
		delete(o, "seconds")
		return o
	}
	quick := evalText(t, "--group-size", "8")
	delete(quick, "seconds")
	require.Equal(t, quick, eval("--against", "m.bin"), "the file computes what eval said it would")
	own := eval()
	require.Equal(t, quick["mean_nll"], own["mean_nll"])
	require.Less(t, own["kl"], quick["kl"], "only activations are quantized between these two")
	require.Equal(t, own["float_mean_nll"], eval("--mode", "fp32")["mean_nll"])
	require.Equal(t, evalText(t, "--group-size", "8", "--mode", "sim")["mean_nll"], eval("--mode", "fp32")["mean_nll"])
	fails(t, exitFailed, "q.bin is already quantized", "eval", "q.bin", "--text", "t.txt", "--bits", "4")
}

// With --samples, lines are chosen by the seed; --answers has a line for each.
func TestEvalTextSamples(t *testing.T) {
	languagePlace(t)
	var text strings.Builder
	for i := range 20 {
		text.WriteString(strings.Repeat("ab ", 1+i%4) + "\n")
	}
	write(t, "t.txt", []byte(text.String()))
	require.EqualValues(t, 20, evalText(t)["sequences"])
	o := evalText(t, "--samples", "5", "--seed", "1", "--answers", "a.tsv", "--group-size", "8")
	require.EqualValues(t, 5, o["sequences"])
	lines := strings.Split(strings.TrimSpace(string(read(t, "a.tsv"))), "\n")
	require.Len(t, lines, 6)
	require.Equal(t, "sequence\ttokens\tnll\tfloat_nll\tkl\tflips", lines[0])
	nll := 0.0
	for _, l := range lines[1:] {
		x, err := strconv.ParseFloat(strings.Split(l, "\t")[2], 64)
		require.NoError(t, err)
		nll += x
	}
	require.InDelta(t, o["mean_nll"], nll/o["tokens"].(float64), 1e-6)
}

func TestEvalTextRefuses(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte("a cab\n"))
	write(t, "empty.txt", []byte("\n\n  \n"))
	saveLanguage(t, "other.bin", shape{dim: 16, hidden: 16, layers: 1, heads: 2, kvHeads: 2, vocab: 300, context: 40}, 2)
	text := []string{"eval", "m.bin", "--text", "t.txt"}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "eval of a checkpoint needs --text", []string{"eval", "m.bin"}},
		{exitUsage, "--labels is not for a checkpoint", append(text, "--labels", "x")},
		{exitUsage, "--bits 5: 8 or 4", append(text, "--bits", "5")},
		{exitUsage, "unknown method", append(text, "--method", "best")},
		{exitUsage, "--mode fp32 quantizes nothing", append(text, "--mode", "fp32", "--bits", "8")},
		{exitUsage, "--mode int8: the weights of m.bin are floats", append(text, "--mode", "int8")},
		{exitUsage, "--mode best", append(text, "--mode", "best")},
		{exitFailed, "groups of 7 elements do not divide", append(text, "--group-size", "7")},
		{exitFailed, "no-such.txt", []string{"eval", "m.bin", "--text", "no-such.txt"}},
		{exitFailed, "empty.txt: eval: there is no text", []string{"eval", "m.bin", "--text", "empty.txt", "--answers", "a.tsv"}},
		{exitFailed, "other.bin has a vocabulary of 300 tokens", append(text, "--against", "other.bin")},
		{exitUsage, "--text is for a checkpoint", []string{"eval", "m.plan.json", "--text", "t.txt"}},
		{exitUsage, "--group-size is for a checkpoint", []string{"eval", "m.onnx", "--group-size", "8"}},
	} {
		fails(t, c.code, c.want, c.args...)
	}
}

// TestEvalTextInChunks: the convention of llama-perplexity, its file, scores of tokens, and the cache apart from the weights.
func TestEvalTextInChunks(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte(strings.Repeat("abba, abracadabra and a cab\n", 12)))
	r := evalText(t, "--context", "16", "--chunks", "5", "--logprobs", "base", "--per-token", "tokens.tsv")
	require.EqualValues(t, 5, r["sequences"])
	require.EqualValues(t, 5*7, r["tokens"])
	lines := strings.Split(strings.TrimSpace(string(read(t, "tokens.tsv"))), "\n")
	require.Len(t, lines, 1+35)
	sum := 0.0
	for _, line := range lines[1:] {
		x, err := strconv.ParseFloat(strings.Split(line, "\t")[4], 64)
		require.NoError(t, err)
		sum += x
	}
	assert.InDelta(t, r["mean_nll"], sum/35, 1e-6)

	// A file of probabilities brings its tokens along.
	own := done(t, "eval", "m.bin", "--against", "base", "--json").object(t)
	assert.InDelta(t, 0, own["kl"], 1e-4)
	assert.InDelta(t, r["mean_nll"], own["float_mean_nll"], 1e-4)
	two := done(t, "eval", "m.bin", "--against", "base", "--chunks", "2", "--bits", "4", "--group-size", "4", "--kv-cache", "fp8",
		"--json").object(t)
	assert.EqualValues(t, 14, two["tokens"])
	assert.Equal(t, "fp8", two["kv_cache"])
	assert.Less(t, two["kv_cache_change"].(map[string]any)["kl"], two["kl"])
	out := done(t, "eval", "m.bin", "--text", "t.txt", "--context", "16", "--kv-cache", "int8").stdout
	assert.Contains(t, out, "float32, cache int8")
	assert.NotContains(t, out, "alone", "there is nothing else")

	for want, args := range map[string][]string{
		"the text has .* tokens, two chunks of 512 are needed": {"--chunks", "3"},
		"longer than the 40 positions":                         {"--context", "64"},
		"--samples takes lines":                                {"--context", "16", "--samples", "2"},
		"unknown type .int3. of a cache":                       {"--kv-cache", "int3"},
	} {
		assert.Regexp(t, want, invoke(append([]string{"eval", "m.bin", "--text", "t.txt", "--logprobs", "none"}, args...)...).lastLine())
	}
	assert.NoFileExists(t, "none")
	write(t, "base", read(t, "base")[:100])
	fails(t, exitFailed, "base: 5 chunks of 16 tokens.*the file has 100", "eval", "m.bin", "--against", "base")
}

// TestEvalTextAgainstRecordedLogits: what another engine gave for its own tokens, here what this one gives.
func TestEvalTextAgainstRecordedLogits(t *testing.T) {
	languagePlace(t)
	const chunks, length = 3, 10
	m, err := checkpoint.Open("m.bin")
	require.NoError(t, err)
	defer m.Close()
	e, err := decode.New(t.Context(), m, decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	tokens, logits := tensor.New(tensor.Int32, chunks, length), tensor.New(tensor.Float32, chunks, length, m.Vocab)
	ids := tensor.Of[int32](tokens)
	for c := range chunks {
		one := make([]int, length)
		for i := range one {
			one[i] = 3 + (7*c+5*i*i)%50
			ids[c*length+i] = int32(one[i])
		}
		x, err := e.Forward(t.Context(), []decode.Sequence{{Cache: decode.NewCache(&m.Config), Tokens: one, Want: length}})
		require.NoError(t, err)
		for i, v := range x {
			logits.F32()[c*length*m.Vocab+i] = v + float32(c) // which no probability sees
		}
	}
	save := func(arrays map[string]*tensor.Tensor) {
		var b bytes.Buffer
		require.NoError(t, npy.WriteArchive(&b, arrays))
		write(t, "r.npz", b.Bytes())
	}
	save(map[string]*tensor.Tensor{"tokens": tokens, "logits": logits})
	r := done(t, "eval", "m.bin", "--against", "r.npz", "--json").object(t)
	require.EqualValues(t, chunks*4, r["tokens"])
	assert.InDelta(t, 0, r["kl"], 1e-6)
	assert.InDelta(t, r["float_mean_nll"], r["mean_nll"], 1e-5)
	assert.Positive(t, done(t, "eval", "m.bin", "--against", "r.npz", "--bits", "4", "--group-size", "4", "--json").object(t)["kl"])

	logits.F32()[5*m.Vocab+2] = float32(math.NaN())
	save(map[string]*tensor.Tensor{"tokens": tokens, "logits": logits})
	fails(t, exitFailed, "logits of token 5: element 2 is NaN", "eval", "m.bin", "--against", "r.npz")
	save(map[string]*tensor.Tensor{"tokens": tokens, "logits": tensor.New(tensor.Float32, chunks, length, 7)})
	fails(t, exitFailed, "vocabulary of 7 tokens", "eval", "m.bin", "--against", "r.npz")
	save(map[string]*tensor.Tensor{"tokens": tokens, "logits": tensor.New(tensor.Float32, chunks, 2, m.Vocab)})
	fails(t, exitFailed, "chunks x context x vocabulary", "eval", "m.bin", "--against", "r.npz")
	ids[4] = 1 << 20
	save(map[string]*tensor.Tensor{"tokens": tokens, "logits": logits})
	fails(t, exitFailed, "token 4 is 1048576", "eval", "m.bin", "--against", "r.npz")
	save(map[string]*tensor.Tensor{"logits": logits})
	fails(t, exitFailed, `no array "tokens"`, "eval", "m.bin", "--against", "r.npz")
}
