package decode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
)

// tokenizerFiles are looked for beside a checkpoint, in this order.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.model", "tokenizer.bin"}

// OpenTokenizer opens the tokenizer of a model: the file at path or, where path is empty, what a GGUF checkpoint holds itself, else
// tokenizer.json, tokenizer.model or tokenizer.bin beside the checkpoint. Its size must be the model's vocabulary. One exception: the
// embedding of a Qwen model has up to a hundredth more rows than its tokenizer.json has tokens.
func OpenTokenizer(path string, m *checkpoint.Model) (Tokenizer, error) {
	name, padding := path, 0
	var t Tokenizer
	var err error
	switch {
	case name == "" && m.Metadata["tokenizer.ggml.model"] != nil:
		name = m.Path
		t, err = GGUFTokenizer(m.Metadata, m.BOS)
	case name == "":
		if name, err = tokenizerBeside(m.Path); err != nil {
			return nil, err
		}
		fallthrough
	default:
		t, padding, err = readTokenizer(name, m)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	if missing := m.Vocab - t.Size(); missing < 0 || missing > padding {
		return nil, fmt.Errorf("tokenizer: %s has %d tokens, the vocabulary of %s has %d: this tokenizer belongs to another model", name,
			t.Size(), m.Path, m.Vocab)
	}
	return t, nil
}

func tokenizerBeside(checkpoint string) (string, error) {
	folder := checkpoint
	if info, err := os.Stat(checkpoint); err == nil && !info.IsDir() {
		folder = filepath.Dir(checkpoint)
	}
	for _, name := range tokenizerFiles {
		name = filepath.Join(folder, name)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return name, nil
		}
	}
	return "", fmt.Errorf("tokenizer: %w: no %s in %s; name one with --tokenizer", ErrNoTokenizer,
		strings.Join(tokenizerFiles, ", "), folder)
}

// readTokenizer reads a tokenizer.json, which begins with a brace, a tokenizer.model of SentencePiece, which begins with a piece, or a
// tokenizer.bin. padding is how many tokens it may have less than
// the vocabulary.
func readTokenizer(path string, m *checkpoint.Model) (t Tokenizer, padding int, err error) {
	b, release, err := file.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = release() }()
	if len(b) == 0 {
		return nil, 0, errors.New("the file is empty")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b[:min(len(b), 64)]), []byte("{")) {
		if isSentencePiece(b) {
			t, err = ParseSentencePieceModel(b, m.BOS)
		} else {
			t, err = ParseLlama2cTokenizer(b)
		}
		return t, 0, err
	}
	if m.Family == checkpoint.Qwen2 || m.Family == checkpoint.Qwen3 {
		padding = m.Vocab / 100
	}
	t, err = ParseTokenizerJSON(b, m.BOS)
	return t, padding, err
}

// isSentencePiece tells a tokenizer.model from a tokenizer.bin, which begins with the length of its longest piece: in a model the first
// field is a piece whose first field is its text.
func isSentencePiece(b []byte) bool { return len(b) > 3 && b[0] == 0x0a && b[1] != 0 && b[2] == 0x0a }
