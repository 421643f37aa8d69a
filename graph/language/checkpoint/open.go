package checkpoint

import (
	"fmt"

	"qwb/graph"
	"qwb/internal/file"
)

// format is one kind of checkpoint that consists of a single file.
type format struct {
	name string
	is   func(b []byte) bool // looks at the beginning, or at the size
	read func(m *Model, b []byte) error
}

// formats are tried in this order; files without a magic number come last.
var formats = []format{
	{"GGUF", isGGUF, readGGUF},
	{"llama2.c", isLlama2c, readLlama2c},
	{"mllm version 1", isMLLM, readMLLM},
	{"InferLLM", isInferLLM, readInferLLM},
	{"KuiperLLama version 3", isKuiper, readKuiper},
	{"llama2.c version 0", isLegacy, readLegacy},
}

// Is reports whether path looks like a checkpoint: a folder with config.json, a file in one that Open takes, or a file of a known
// format. It reads only what it needs to tell.
func Is(path string) bool {
	if folder, ok := folderOf(path); ok {
		return isFolder(folder)
	}
	b, release, err := file.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = release() }()
	return find(b) != nil
}

// Begins reports whether a file that begins so looks like a checkpoint.
func Begins(head []byte) bool { return find(head) != nil }

func find(b []byte) *format {
	for i := range formats {
		if formats[i].is(b) {
			return &formats[i]
		}
	}
	return nil
}

// Open opens a checkpoint: a file of llama2.c, GGUF, mllm, InferLLM or KuiperLLama, or a folder (or the config.json or safetensors file in
// it) as Hugging Face lays it out. What a format does not hold of the shape is taken from config.json beside the file. Tensors are mapped,
// not read. What is damaged, incomplete, contradicts itself or has an unknown architecture is an error that names the file.
func Open(path string) (*Model, error) { return OpenLike(path, nil) }

// OpenLike is Open with what the format does not hold taken from like, where that is not nil.
func OpenLike(path string, like *Config) (*Model, error) {
	m := &Model{Path: path, like: like}
	err := m.open(path)
	if err == nil {
		err = m.Validate()
	}
	if err == nil {
		err = m.complete()
	}
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, &graph.FileError{Stage: "checkpoint", File: path, Err: err}
	}
	return m, nil
}

func (m *Model) open(path string) error {
	if folder, ok := folderOf(path); ok {
		return readFolder(m, folder)
	}
	b, err := m.mapFile(path, "")
	if err != nil {
		return err
	}
	f := find(b)
	if f == nil {
		return fmt.Errorf("not a known checkpoint (%d bytes)", len(b))
	}
	m.Format = f.name
	return f.read(m, b)
}

// mapFile maps a file for as long as the model is open.
func (m *Model) mapFile(path, name string) ([]byte, error) {
	f, err := file.OpenMapping(path)
	if err != nil {
		return nil, err
	}
	m.release = append(m.release, f.Release)
	m.files = append(m.files, source{name, f})
	return f.Bytes, nil
}
