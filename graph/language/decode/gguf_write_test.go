package decode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// TestGGUFMetadataMakeTheSameTokenizer: a tokenizer.bin written as metadata cuts texts as before.
func TestGGUFMetadataMakeTheSameTokenizer(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/ and data/text/")
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "text", "tinystories_valid_head.txt"))
	require.NoError(t, err)
	for _, name := range []string{"tokenizer.bin", "tok512.bin"} {
		b, err := os.ReadFile(filepath.Join(dir, "models", "llm", name))
		require.NoError(t, err)
		want, err := decode.ParseLlama2cTokenizer(b)
		require.NoError(t, err)
		got, err := decode.GGUFTokenizer(want.GGUFMetadata(2), 1)
		require.NoError(t, err)
		assert.Equal(t, want.Size(), got.Size())
		for line := range strings.Lines(string(text) + "\nSüß \u4e16\u754c \U0001f600\t\x80") {
			ids := want.Encode(line)
			require.Equal(t, ids, got.Encode(line), "%s: %q", name, line)
			require.Equal(t, decode.Text(want, 1, ids), decode.Text(got, 1, ids))
		}
	}
}

// besides puts a tokenizer.json, and other files, into a folder with a model of as many tokens, and transcribes it.
func besides(t *testing.T, tokenizer []byte, vocab int, files map[string]string) (*checkpoint.Model, *decode.GGUFTokens, error) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), tokenizer, 0o600))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	m := &checkpoint.Model{Path: folder, Config: checkpoint.Config{Family: checkpoint.Qwen2, Vocab: vocab, BOS: 1, EOS: []int{2}}}
	g, err := decode.TokensForGGUF("", m)
	return m, g, err
}

// TestTokenizerJSONAsGGUF: what is written makes the tokens that the library tokenizers made, or is refused.
func TestTokenizerJSONAsGGUF(t *testing.T) {
	b, err := os.ReadFile("testdata/tokenizers-expected.json")
	require.NoError(t, err)
	var expected map[string]struct {
		Size  int
		Texts []struct {
			Text string
			IDs  []int
		}
	}
	require.NoError(t, json.Unmarshal(b, &expected))
	for name, refused := range map[string]string{
		"llama3": "", "qwen2": "", "smollm": "", "gpt2": `puts a space in front, then cuts .*has no name in GGUF`,
		"llama2": `pairs make a token and are no merges`, "metaspace": "no token for the byte <0x00>",
	} {
		b, err := os.ReadFile("testdata/tokenizer-" + name + ".json")
		require.NoError(t, err)
		m, g, err := besides(t, b, expected[name].Size+2, nil)
		if refused != "" {
			require.Error(t, err, name)
			assert.Regexp(t, refused, err.Error(), name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, name == "qwen2", len(g.Warnings) > 0 && strings.Contains(g.Warnings[0].Text, "normalises"), "%v", g.Warnings)
		back, err := decode.GGUFTokenizer(g.Metadata, m.BOS)
		require.NoError(t, err)
		assert.Equal(t, m.Vocab, back.Size(), "two tokens that no text has")
		for _, c := range expected[name].Texts {
			if !strings.Contains(c.Text, "<mask>") { // it takes the spaces around it, which GGUF cannot say
				assert.Equal(t, c.IDs, append([]int{}, back.Encode(c.Text)...), "%s %q", name, c.Text)
			}
		}
	}
}

// TestMergesAsGGUFScores: a trained vocabulary in the form of Llama 2's tokenizer.json gets scores that cut texts as its merges do.
func TestMergesAsGGUFScores(t *testing.T) {
	text, err := os.ReadFile(llm(t) + "/../../data/text/tinystories_valid_head.txt")
	require.NoError(t, err)
	for _, name := range []string{"tok512.bin", "tokenizer.bin"} {
		s := tokenizer(t, name)
		m, g, err := besides(t, llama2JSON(t, s), s.Size(), nil)
		require.NoError(t, err)
		assert.Equal(t, "llama", g.Metadata["tokenizer.ggml.model"])
		back, err := decode.GGUFTokenizer(g.Metadata, m.BOS)
		require.NoError(t, err)
		for _, line := range strings.Split(string(text[:20000])+"na\u00efve \u65e5\u672c \U0001f642", "\n") {
			if line != "" {
				require.Equal(t, s.Encode(line), back.Encode(line), "%q", line)
			}
		}
	}
}

// TestTokensThatBeginAndEnd: from tokenizer_config.json, or else from the template of tokenizer.json.
func TestTokensThatBeginAndEnd(t *testing.T) {
	b, err := os.ReadFile("testdata/tokenizer-llama3.json")
	require.NoError(t, err)
	_, g, err := besides(t, b, 421, nil)
	require.NoError(t, err)
	for key, want := range map[string]any{"add_bos_token": false, "add_eos_token": false, "bos_token_id": uint32(1), "eos_token_id": uint32(2),
		"pre": "llama-bpe"} {
		assert.Equal(t, want, g.Metadata["tokenizer.ggml."+key], key)
	}
	template := strings.Replace(string(b), `"post_processor":null`, `"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},
		{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|begin|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}]}`, 1)
	_, g, err = besides(t, []byte(template), 421, map[string]string{"tokenizer_config.json": `{"eos_token":{"content":"<mask>"},"pad_token":"<unk>",
		"chat_template":[{"name":"default","template":"A"},{"name":"tools","template":"B"}],"add_eos_token":true}`})
	require.NoError(t, err)
	for key, want := range map[string]any{
		"ggml.add_bos_token": true, "ggml.add_eos_token": true, "ggml.eos_token_id": uint32(420), "ggml.eot_token_id": uint32(2),
		"ggml.padding_token_id": uint32(0), "chat_template": "A", "chat_template.tools": "B", "chat_templates": []string{"tools"},
	} {
		assert.Equal(t, want, g.Metadata["tokenizer."+key], key)
	}
	_, g, err = besides(t, b, 421, map[string]string{"chat_template.jinja": "{{x}}", "tokenizer_config.json": `{"chat_template":"old"}`})
	require.NoError(t, err)
	assert.Equal(t, "{{x}}", g.Metadata["tokenizer.chat_template"])
	_, _, err = besides(t, b, 421, map[string]string{"tokenizer_config.json": `{"eos_token":3}`})
	assert.ErrorContains(t, err, "names no token")
	_, _, err = besides(t, b, 421, map[string]string{"tokenizer_config.json": `{"chat_template":3}`})
	assert.ErrorContains(t, err, "neither a text nor a list")
}
