package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"qwb/graph"
	"qwb/internal/file"
)

// Model is a checkpoint that was opened. Close ends the use of its tensors.
type Model struct {
	Config
	Path   string
	Format string // in words: "llama2.c version 0"

	// RopeTables are the cosines and then the sines that a file of llama2.c version 0 holds, each Context x HeadDim/2 float32,
	// as they were read; nil where there are none. They are carried over when the same format is written.
	RopeTables []byte

	// Metadata is what a GGUF file says beside its tensors, by key: a bool, string, integer or float of the size that the file
	// gives it (uint32, float32, ...), a slice of one of these, or []any, which holds slices.
	Metadata map[string]any

	// Warnings say what was left out of the files, in their order.
	Warnings []graph.Warning

	like    *Config // OpenLike's
	tensors map[Part]*Tensor
	files   []source // what was mapped, in the order of reading
	release []func() error
	spills  *file.Maps // of tensors that were changed; nil: none yet
}

type source struct {
	name    string // without the folder
	mapping *file.Mapping
}

// Folder reports whether the model is a folder as Hugging Face lays it out, in which other files belong to it too.
func (m *Model) Folder() bool { return m.Format == folderFormat }

// Tensor is Of for parts that are not an expert's.
func (m *Model) Tensor(r Role, layer int) *Tensor {
	return m.Of(Part{Role: r, Layer: layer})
}

// Of returns a part of the model; of a tied model the classifier is the embedding.
func (m *Model) Of(p Part) *Tensor {
	if p.Role == Classifier && m.Tied {
		p.Role = Embedding
	}
	return m.tensors[p]
}

// Tensors returns all parts in the order of computation.
func (m *Model) Tensors() []*Tensor {
	parts := m.Parts()
	out := make([]*Tensor, len(parts))
	for i, p := range parts {
		out[i] = m.tensors[p]
	}
	return out
}

// Digest returns the SHA-256 of the checkpoint in hexadecimal: of its file, or of the lines "sha256  name\n" of its files in the
// order of their names. It reads all of them, and ends with the error of a context.
func (m *Model) Digest(ctx context.Context) (string, error) {
	if m.release == nil && len(m.files) == 0 {
		return "", errors.New("the checkpoint was closed")
	}
	one := func(m *file.Mapping) string {
		h := sha256.New()
		for part := range slices.Chunk(m.Bytes, 1<<22) {
			if ctx.Err() == nil {
				h.Write(part) // no error: see package hash
				m.Forget(part)
			}
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	if len(m.files) == 1 {
		return one(m.files[0].mapping), ctx.Err()
	}
	h := sha256.New()
	for _, f := range m.files {
		if _, err := io.WriteString(h, one(f.mapping)+"  "+f.name+"\n"); err != nil {
			return "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Close releases the files. Tensors must not be read afterwards.
func (m *Model) Close() error {
	var err error
	for _, r := range m.release {
		err = errors.Join(err, r())
	}
	if m.spills != nil {
		err = errors.Join(err, m.spills.Release())
	}
	m.release, m.files, m.tensors, m.spills = nil, nil, nil, nil
	return err
}

// add puts a tensor in place after checking its shape and that its bytes are there.
func (m *Model) add(t *Tensor) error {
	rows, cols := m.Shape(t.Role)
	if t.Rows != rows || t.Cols != cols {
		return fmt.Errorf("tensor %q (%s) has shape [%d,%d], the configuration says [%d,%d]", t.Name, t.Part, t.Rows, t.Cols, rows, cols)
	}
	if n := t.Type.block(); t.Cols%n != 0 {
		return fmt.Errorf("tensor %q (%s): rows of %d elements are no whole blocks of %d", t.Name, t.Part, t.Cols, n)
	}
	if want := t.Type.bytes(t.Len()); t.Type != Packed && len(t.data) != want {
		return fmt.Errorf("tensor %q (%s) has %d bytes, %d %s elements take %d", t.Name, t.Part, len(t.data), t.Len(), t.Type, want)
	}
	if t.Role.Vector() && !t.Floats() {
		return fmt.Errorf("tensor %q (%s) is quantized (%s); vectors are floats", t.Name, t.Part, t.Type)
	}
	if m.tensors == nil {
		m.tensors = map[Part]*Tensor{}
	}
	if m.tensors[t.Part] != nil {
		return fmt.Errorf("there are two tensors for %s: %q and %q", t.Part, m.tensors[t.Part].Name, t.Name)
	}
	m.tensors[t.Part] = t
	return nil
}

// complete reports the first part that is missing.
func (m *Model) complete() error {
	for _, p := range m.Parts() {
		if m.tensors[p] == nil {
			return fmt.Errorf("there is no tensor for %s", p)
		}
	}
	return nil
}
