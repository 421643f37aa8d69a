package decode_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/decode"
)

// TestTokenizersOfHuggingFace: ids and texts are those that the library tokenizers makes; see testdata/make_tokenizers.py.
func TestTokenizersOfHuggingFace(t *testing.T) {
	b, err := os.ReadFile("testdata/tokenizers-expected.json")
	require.NoError(t, err)
	var expected map[string]struct {
		Size  int
		Texts []struct {
			Text    string
			IDs     []int
			Decoded string
		}
	}
	require.NoError(t, json.Unmarshal(b, &expected))
	require.Len(t, expected, 10)
	for name, want := range expected {
		b, err := os.ReadFile("testdata/tokenizer-" + name + ".json")
		require.NoError(t, err)
		tok, err := decode.ParseTokenizerJSON(b, -1)
		require.NoError(t, err, name)
		assert.Equal(t, want.Size, tok.Size(), name)
		for _, c := range want.Texts {
			ids := tok.Encode(c.Text)
			assert.Equal(t, c.IDs, append([]int{}, ids...), "%s %q", name, c.Text)
			assert.Equal(t, c.Decoded, decode.Text(tok, -1, ids), "%s %q", name, c.Text)
		}
	}
}

// TestMergesAreScores: the trained vocabulary of llama2.c as a tokenizer.json of Llama 2's kind cuts texts as its scores do.
func TestMergesAreScores(t *testing.T) {
	b, err := os.ReadFile(llm(t) + "/../../data/text/tinystories_valid_head.txt")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(b[:20000]), "\r", "") + "naïve 日本 🙂"
	for _, name := range []string{"tok512.bin", "tokenizer.bin"} {
		s := tokenizer(t, name)
		tok, err := decode.ParseTokenizerJSON(llama2JSON(t, s), 1)
		require.NoError(t, err)
		require.Equal(t, s.Size(), tok.Size())
		for _, line := range strings.Split(text, "\n") {
			ids := tok.Encode(line)
			if line == "" {
				continue // Prepend makes a space of it
			}
			assert.Equal(t, s.Encode(line), ids, "%q", line)
			assert.Equal(t, line, decode.Text(tok, 1, ids))
		}
	}
}

// TestBadSegmenters: what pieces with scores, and pieces of words, have to be.
func TestBadSegmenters(t *testing.T) {
	for want, text := range map[string]string{
		"is no pair of a piece and its score": `{"model": {"type": "Unigram", "vocab": [["a", -1], ["a", -2]], "unk_id": 0}}`,
		"unk_id 2 is no piece":                `{"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 2}}`,
		"unk_id -1 is no piece":               `{"model": {"type": "Unigram", "vocab": [["a", -1]]}}`,
		"has 600 bytes, more than 512": `{"model": {"type": "Unigram", "vocab": [["` + strings.Repeat("a", 600) +
			`", -1]], "unk_id": 0}}`,
		"there is no continuing_subword_prefix": `{"model": {"type": "WordPiece", "vocab": {"a": 0}}}`,
		"there is no unk_token":                 `{"model": {"type": "WordPiece", "vocab": {"a": 0}, "continuing_subword_prefix": "##"}}`,
		"max_input_chars_per_word is 9999999": `{"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", ` +
			`"continuing_subword_prefix": "##", "max_input_chars_per_word": 9999999}}`,
		`the table of characters is cut off`: `{"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 0},` +
			`"normalizer": {"type": "Precompiled"}}`,
	} {
		_, err := decode.ParseTokenizerJSON([]byte(text), 0)
		assert.ErrorContains(t, err, want)
	}
}

// llama2JSON writes a vocabulary with scores as Hugging Face converts one: a merge for every way to make a piece of two, the better
// pieces first.
func llama2JSON(t *testing.T, s *decode.SentencePiece) []byte {
	t.Helper()
	pieces, scores := s.Vocabulary()
	vocab := map[string]int{}
	for id, p := range pieces {
		switch {
		case id >= 3 && id < 259:
			p = fmt.Sprintf("<0x%02X>", id-3)
		default:
			p = strings.ReplaceAll(p, " ", "\u2581")
		}
		if _, twice := vocab[p]; twice {
			p = fmt.Sprintf("twice %d", id)
		}
		vocab[p] = id
	}
	type merge struct {
		pair  [2]string
		score float32
		id    int
	}
	var merges []merge
	for p, id := range vocab {
		if id < 259 {
			continue
		}
		for cut := range p {
			if a, b := p[:cut], p[cut:]; vocab[a] >= 259 && vocab[b] >= 259 {
				merges = append(merges, merge{[2]string{a, b}, scores[id], id})
			}
		}
	}
	slices.SortFunc(merges, func(x, y merge) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.id, y.id), cmp.Compare(x.pair[0], y.pair[0]))
	})
	pairs := make([][2]string, len(merges))
	for i, m := range merges {
		pairs[i] = m.pair
	}
	b, err := json.Marshal(map[string]any{
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": pairs, "byte_fallback": true, "unk_token": nil},
		"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "Prepend", "prepend": "\u2581"},
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "\u2581"}}},
		"decoder": map[string]any{"type": "Sequence",
			"decoders": []any{map[string]any{"type": "Replace", "pattern": map[string]any{"String": "\u2581"}, "content": " "},
				map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"}, map[string]any{"type": "Strip", "content": " ", "start": 1,
					"stop": 0}}},
	})
	require.NoError(t, err)
	return b
}

func TestBadTokenizerJSON(t *testing.T) {
	b, err := os.ReadFile("testdata/tokenizer-llama3.json")
	require.NoError(t, err)
	for _, c := range []struct{ want, old, new string }{
		{`type "WordLevel"`, `"type":"BPE"`, `"type":"WordLevel"`},
		{"dropout", `"dropout":null`, `"dropout":0.1`},
		{"end_of_word_suffix", `"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`},
		{`normalizer "Nmt" is not supported`, `"normalizer":null`, `"normalizer":{"type":"Nmt"}`},
		{`pre_tokenizer "Whitespace" is not supported`, `"pre_tokenizer":{"type":"Sequence"`, `"pre_tokenizer":{"type":"Whitespace"`},
		{`behavior "MergedWithNext"`, `"Isolated"`, `"MergedWithNext"`},
		{"unsupported Perl syntax", `\\s+(?!\\S)|\\s+`, `\\s+(?!\\S)|\\s+|x(?=y)`},
		{"invalid named capture", `(?i:'s`, `(?<!x)(?i:'s`},
		{`\w is not supported`, `(?i:'s`, `\\w|(?i:'s`},
		{"missing closing", `(?i:'s`, `((?i:'s`},
		{`decoder "WordPiece"`, `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"WordPiece"`},
		{"have the same id", `"content":"<|end|>"`, `"content":"<|END|>"`},
		{"is no token", `"merges":[`, `"merges":[["zz","zz"],`},
		{"has not two parts", `"merges":[`, `"merges":["a b c",`},
		{"has the id 99999999", `"!":3`, `"!":99999999`},
		{"no token for the byte", `"!":3`, `"!!!":3`},
		{"is to be a single word", `"single_word":false`, `"single_word":true`},
		{"invalid character", `{`, `{{`},
	} {
		s := strings.Replace(string(b), c.old, c.new, 1)
		require.NotEqual(t, string(b), s, "%s: nothing was replaced", c.want)
		_, err := decode.ParseTokenizerJSON([]byte(s), 0)
		assert.ErrorContains(t, err, c.want)
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	for _, name := range []string{"gpt2", "llama2", "qwen2", "wordpiece", "unigram-bytes"} {
		b, err := os.ReadFile("testdata/tokenizer-" + name + ".json")
		require.NoError(f, err)
		f.Add(b, "Once upon a time 12 <|end|>")
	}
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		tok, err := decode.ParseTokenizerJSON(b, 1)
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text) {
			assert.GreaterOrEqual(t, id, 0)
			assert.Less(t, id, tok.Size())
			tok.Piece(1, id)
		}
	})
}

func FuzzLlama2cTokenizer(f *testing.F) {
	var b []byte
	for i := range 300 {
		b = append(b, 0, 0, 0, 0, 1, 0, 0, 0, byte(i))
	}
	f.Add(append([]byte{1, 0, 0, 0}, b...), "abc")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		s, err := decode.ParseLlama2cTokenizer(b)
		if err != nil {
			return
		}
		for _, id := range s.Encode(text) {
			assert.Less(t, id, s.Size())
			s.Piece(1, id)
		}
	})
}
