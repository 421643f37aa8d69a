package decode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"qwb/graph/checkpoint"
	"qwb/internal/file"
)

// tokenizerFiles are looked for beside a checkpoint, in this order.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.bin"}

// OpenTokenizer opens the tokenizer of a model: the file at path or, where path is empty, what a GGUF checkpoint holds itself, else
// tokenizer.json or tokenizer.bin beside the checkpoint. Its size must be the model's vocabulary. One exception: the
// embedding of a Qwen2 model has up to a hundredth more rows than its tokenizer.json has tokens.
func OpenTokenizer(path string, m *checkpoint.Model) (Tokenizer, error) {
	if path == "" && m.Metadata["tokenizer.ggml.model"] != nil {
		t, err := GGUFTokenizer(m.Metadata, m.BOS)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", m.Path, err)
		}
		return t, fits(m.Path, t, m, 0)
	}
	name := path
	if name == "" {
		var err error
		if name, err = tokenizerBeside(m.Path); err != nil {
			return nil, err
		}
	}
	t, padding, err := readTokenizer(name, m)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	return t, fits(name, t, m, padding)
}

// fits checks the size of a tokenizer against a model, whose embedding may have so many rows more.
func fits(name string, t Tokenizer, m *checkpoint.Model, padding int) error {
	if missing := m.Vocab - t.Size(); missing < 0 || missing > padding {
		return fmt.Errorf("tokenizer: %s has %d tokens, the vocabulary of %s has %d: this tokenizer belongs to another model", name, t.Size(), m.Path, m.Vocab)
	}
	return nil
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
	return "", fmt.Errorf("tokenizer: there is no %s in %s: name one with --tokenizer", strings.Join(tokenizerFiles, " or "), folder)
}

// readTokenizer reads a tokenizer.json, which begins with a brace, or a tokenizer.bin.
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
		t, err = ParseLlama2cTokenizer(b)
		return t, 0, err
	}
	if m.Family == checkpoint.Qwen2 {
		padding = m.Vocab / 100
	}
	t, err = ParseTokenizerJSON(b, m.BOS)
	return t, padding, err
}
