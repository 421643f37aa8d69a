package decode_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/decode"
)

func spModel(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/sentencepiece-" + name + ".model")
	require.NoError(t, err)
	return b
}

// TestSentencePieceModels: models of two kinds, with and without a table of characters, cut texts of many scripts as the library does
// (testdata/make_sentencepiece.py), and so does what GGUF says of them.
func TestSentencePieceModels(t *testing.T) {
	file := "testdata/sentencepiece-expected.json"
	if own := os.Getenv("QWB_SENTENCEPIECE"); own != "" {
		file = own // more texts
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var want map[string][][2]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &want))
	require.Len(t, want, 6)
	for name, texts := range want {
		s, err := decode.ParseSentencePieceModel(spModel(t, name), 1)
		require.NoError(t, err)
		for _, pair := range texts {
			var text string
			ids := []int{}
			require.NoError(t, json.Unmarshal(pair[0], &text))
			require.NoError(t, json.Unmarshal(pair[1], &ids))
			require.Equal(t, ids, append([]int{}, s.Encode(text)...), "%s: %q", name, text)
		}
		if !slices.Contains([]string{"llama", "gemma", "collapse"}, name) {
			continue // GGUF says nothing of these
		}
		meta := s.GGUFMetadata(2)
		assert.Equal(t, "<unk>", meta["tokenizer.ggml.tokens"].([]string)[0])
		assert.Equal(t, []int32{2, 3, 3, 4}, meta["tokenizer.ggml.token_type"].([]int32)[:4], "unknown, control, control, the user's")
		back, err := decode.GGUFTokenizer(meta, 1)
		require.NoError(t, err)
		for _, text := range []string{"Once upon a time", "日本語 x"} {
			assert.Equal(t, s.Encode(text), back.Encode(text), "%s: %q", name, text)
		}
	}
}

func TestSentencePieceModelsThatAreRefused(t *testing.T) {
	b := spModel(t, "llama")
	_, err := decode.ParseSentencePieceModel(append(bytes.Clone(b), 0x12, 2, 0x18, 3), 1)
	assert.ErrorContains(t, err, "SentencePiece by words is not supported: byte-pair encoding and unigram are")
	_, err = decode.ParseSentencePieceModel(append(bytes.Clone(b), 0x1a, 3, 0x12, 1, 'x'), 1)
	assert.ErrorContains(t, err, "the table of characters is cut off")
	_, err = decode.ParseSentencePieceModel(append(bytes.Clone(b), 0x1a, 8, 0x12, 6, 'x', 0, 0, 0, 0, 0), 1)
	assert.ErrorContains(t, err, "the table of characters has 6 bytes, its first part 120")
	for n := range 300 {
		_, err := decode.ParseSentencePieceModel(b[:n], 1)
		assert.Error(t, err, "cut to %d bytes", n)
	}
	_, err = decode.ParseSentencePieceModel([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), 1)
	assert.ErrorContains(t, err, "cut off")
}

func FuzzSentencePieceModel(f *testing.F) {
	f.Add(spModel(f, "llama")[:2000])
	f.Add(append(spModel(f, "unigram")[:3000], "\x1a\x0e\x12\x0c\x04\x00\x00\x00\x61\x01\x00\x00a\x00b\x00"...))
	f.Add([]byte("\x0a\x05\x0a\x01a\x18\x06"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if s, err := decode.ParseSentencePieceModel(b, 1); err == nil {
			decode.Text(s, 1, s.Encode("a b \u2581 \xff"))
		}
	})
}
