package checkpoint

import (
	"fmt"

	"qwb/internal/file"
)

// NewTensor returns a tensor of bytes in memory, or of a file that is mapped. Groups have their scales (float32) apart, and group
// elements for each; other types have neither.
func NewTensor(p Part, name string, rows, cols int, t Type, data, scales []byte, group int) *Tensor {
	return &Tensor{Part: p, Name: name, Rows: rows, Cols: cols, Type: t, Group: group, data: data, scales: scales}
}

// New puts a model together that no format of this package holds: from tensors in any order, one for each of c.Parts(). from, if
// not nil, is the file that they are cut from; it is released when the model is closed, also where there is an error.
func New(c Config, format string, tensors []*Tensor, from *file.Mapping) (*Model, error) {
	m := &Model{Config: c, Format: format}
	if from != nil {
		m.release = append(m.release, from.Release)
		m.files = append(m.files, source{"", from})
	}
	err := m.Validate()
	for _, t := range tensors {
		if err == nil {
			err = m.add(t)
		}
	}
	if err == nil {
		err = m.complete()
	}
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return m, nil
}

// Bytes is how many bytes the elements of a type take. Scales of Groups are apart from them and come on top.
func (t Type) Bytes(elements int) int { return t.bytes(elements) }

// BlockElements is how many elements rows have to be multiples of; 1 for types without blocks.
func (t Type) BlockElements() int { return t.block() }

// Forget says that a tensor is not needed for a while: where it is mapped, its pages do not count as memory of the process until
// they are read again.
func (m *Model) Forget(t *Tensor) {
	for _, f := range m.files {
		f.mapping.Forget(t.data)
		f.mapping.Forget(t.scales)
	}
	if m.spills == nil {
		return
	}
	m.spills.Forget(t.data)
	m.spills.Forget(t.scales)
	if t.levels != nil {
		m.spills.Forget(t.levels.Codes)
	}
}
