package decode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

func TestOpenTokenizer(t *testing.T) {
	dir := llm(t)
	m, err := checkpoint.Open(dir + "/stories260K.bin")
	require.NoError(t, err)
	defer m.Close()
	tok, err := decode.OpenTokenizer(dir+"/tok512.bin", m)
	require.NoError(t, err)
	assert.Equal(t, 512, tok.Size())
	_, err = decode.OpenTokenizer("", m) // tokenizer.bin beside it is that of the larger model
	assert.ErrorContains(t, err, "has 32000 tokens, the vocabulary of "+m.Path+" has 512")
	_, err = decode.OpenTokenizer(dir+"/nothing.bin", m)
	assert.ErrorContains(t, err, "nothing.bin: no such file")
	_, err = decode.OpenTokenizer(dir+"/stories260K-hf/model.safetensors", m)
	assert.ErrorContains(t, err, "tokenizer: ")

	folder := t.TempDir()
	empty := &checkpoint.Model{Path: folder}
	_, err = decode.OpenTokenizer("", empty)
	assert.ErrorContains(t, err, "no tokenizer.json, tokenizer.model, tokenizer.bin in "+folder)
	b, err := os.ReadFile("testdata/tokenizer-qwen2.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), b, 0o600))
	for _, c := range []struct {
		family checkpoint.Family
		vocab  int
		ok     bool
	}{
		{checkpoint.Llama, 421, true}, {checkpoint.Llama, 422, false}, {checkpoint.Llama, 420, false},
		{checkpoint.Qwen2, 421, true}, {checkpoint.Qwen2, 424, true}, {checkpoint.Qwen2, 427, false}, {checkpoint.Qwen2, 420, false},
	} {
		_, err := decode.OpenTokenizer("", &checkpoint.Model{Path: folder, Config: checkpoint.Config{Family: c.family, Vocab: c.vocab}})
		assert.Equal(t, c.ok, err == nil, "%s %d: %v", c.family, c.vocab, err)
	}
}

// TestTokenizersOfGGUF: the same vocabularies as metadata of GGUF cut texts alike.
func TestTokenizersOfGGUF(t *testing.T) {
	texts := []string{"Once upon a time, there was 1 girl.", "a  b\n\n c", "naïve cafe\u0301 🙂", "<|begin|>x<|end|> y", ""}
	for pre, name := range map[string]string{"llama-bpe": "llama3", "qwen2": "qwen2", "smollm": "smollm"} {
		b, err := os.ReadFile("testdata/tokenizer-" + name + ".json")
		require.NoError(t, err)
		want, err := decode.ParseTokenizerJSON(b, -1)
		require.NoError(t, err)
		meta := bpeMetadata(t, b, pre)
		got, err := decode.GGUFTokenizer(meta, -1)
		require.NoError(t, err)
		require.Equal(t, want.Size(), got.Size())
		for _, text := range texts {
			ids := want.Encode(text)
			assert.Equal(t, ids, got.Encode(text), "%s %q", name, text)
			assert.Equal(t, decode.Text(want, -1, ids), decode.Text(got, -1, ids))
		}
		meta["tokenizer.ggml.pre"] = "mystery"
		_, err = decode.GGUFTokenizer(meta, -1)
		assert.ErrorContains(t, err, `tokenizer.ggml.pre is "mystery"; known are dbrx, gpt-2, llama-bpe`)
		meta["tokenizer.ggml.pre"] = pre
		meta["tokenizer.ggml.merges"] = []string{"a"}
		_, err = decode.GGUFTokenizer(meta, -1)
		assert.ErrorContains(t, err, "has not two parts")
	}
	s := tokenizer(t, "tok512.bin")
	meta := pieceMetadata(s)
	got, err := decode.GGUFTokenizer(meta, 1)
	require.NoError(t, err)
	require.Equal(t, 512, got.Size())
	for _, text := range slices.Concat(texts, []string{"</s"}) {
		assert.Equal(t, s.Encode(text), got.Encode(text), "%q", text)
		assert.Equal(t, text, decode.Text(got, 1, got.Encode(text)))
	}
	ids := got.Encode("</s>Once")
	assert.Equal(t, append([]int{2}, s.Encode("Once")...), ids, "a control token is found in the text")
	meta["tokenizer.ggml.add_space_prefix"] = false
	plain, err := decode.GGUFTokenizer(meta, 1)
	require.NoError(t, err)
	assert.Equal(t, plain.Encode(" Once"), got.Encode("Once"))
	assert.Equal(t, " Once", decode.Text(plain, 1, plain.Encode(" Once")))

	for want, edit := range map[string]func(map[string]any){
		"tokenizer.ggml.model is bert": func(m map[string]any) { m["tokenizer.ggml.model"] = "bert" },
		"512 tokens and 1 types":       func(m map[string]any) { m["tokenizer.ggml.token_type"] = []int32{1} },
		"token_type is missing":        func(m map[string]any) { delete(m, "tokenizer.ggml.token_type") },
		"512 tokens with 0 scores":     func(m map[string]any) { delete(m, "tokenizer.ggml.scores") },
		"0 tokens":                     func(m map[string]any) { delete(m, "tokenizer.ggml.tokens") },
		"no token for the byte <0x00>": func(m map[string]any) { m["tokenizer.ggml.token_type"].([]int32)[3] = 1 },
		"token 300 is to be a byte":    func(m map[string]any) { m["tokenizer.ggml.token_type"].([]int32)[300] = 6 },
	} {
		meta := pieceMetadata(s)
		edit(meta)
		_, err := decode.GGUFTokenizer(meta, 1)
		assert.ErrorContains(t, err, want)
	}
}

// pieceMetadata writes a vocabulary with scores as llama.cpp converts one.
func pieceMetadata(s *decode.SentencePiece) map[string]any {
	pieces, scores := s.Vocabulary()
	tokens, types := make([]string, len(pieces)), make([]int32, len(pieces))
	for id, p := range pieces {
		tokens[id], types[id] = strings.ReplaceAll(p, " ", "\u2581"), 1
		switch {
		case id == 0:
			tokens[id], types[id] = "<unk>", 2
		case id < 3:
			tokens[id], types[id] = []string{"<s>", "</s>"}[id-1], 3
		case id < 259:
			tokens[id], types[id] = "<0x"+strings.ToUpper(hexByte(id-3))+">", 6
		}
	}
	return map[string]any{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": slices.Clone(scores),
		"tokenizer.ggml.token_type": types}
}

func hexByte(b int) string {
	return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15])
}

// bpeMetadata turns a tokenizer.json on bytes into metadata.
func bpeMetadata(t *testing.T, b []byte, pre string) map[string]any {
	t.Helper()
	var f struct {
		Added []struct {
			ID      int
			Content string
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	require.NoError(t, json.Unmarshal(b, &f))
	size := 0
	for _, id := range f.Model.Vocab {
		size = max(size, id+1)
	}
	for _, a := range f.Added {
		size = max(size, a.ID+1)
	}
	tokens, types, merges := make([]string, size), make([]int32, size), []string(nil)
	for p, id := range f.Model.Vocab {
		tokens[id], types[id] = p, 1
	}
	for _, a := range f.Added {
		tokens[a.ID], types[a.ID] = a.Content, 3
	}
	for _, m := range f.Model.Merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	return map[string]any{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
		"tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges}
}
