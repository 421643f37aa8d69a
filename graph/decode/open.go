package decode

import (
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
	name := path
	if name == "" {
		var err error
		if name, err = tokenizerBeside(m.Path); err != nil {
			return nil, err
		}
	}
	t, err := readTokenizer(name)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	if t.Size() != m.Vocab {
		return nil, fmt.Errorf("tokenizer: %s has %d tokens, the vocabulary of %s has %d: this tokenizer belongs to another model", name, t.Size(), m.Path, m.Vocab)
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
	return "", fmt.Errorf("tokenizer: there is no %s in %s: name one with --tokenizer", strings.Join(tokenizerFiles, " or "), folder)
}

func readTokenizer(path string) (Tokenizer, error) {
	b, release, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }()
	if len(b) == 0 {
		return nil, errors.New("the file is empty")
	}
	return ParseLlama2cTokenizer(b)
}
