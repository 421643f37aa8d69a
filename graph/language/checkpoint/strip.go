package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"qwb/internal/file"
)

// Strip is some rows of a tensor of floats; it shares its bytes.
func (t *Tensor) Strip(from, rows int) *Tensor {
	out := *t
	out.Rows, out.data = rows, t.data[t.Type.bytes(from*t.Cols):t.Type.bytes((from+rows)*t.Cols)]
	return &out
}

// finiteRows is how many elements Model.Finite reads before it gives up their pages.
const finiteRows = 1 << 19

// Finite is Tensor.Finite that gives up what it has read.
func (m *Model) Finite(t *Tensor) error {
	if !t.Floats() {
		return t.Finite()
	}
	for from, n := 0, max(1, finiteRows/t.Cols); from < t.Rows; from += n {
		to := min(from+n, t.Rows)
		err := t.finite(from, to)
		if m.Forget(t.Strip(from, to-from)); err != nil {
			return err
		}
	}
	return nil
}

// Stack puts rows of one matrix together: tensors of NewTensor, or of NewPacked where scales are of single rows.
func Stack(list []*Tensor) *Tensor {
	if len(list) == 1 {
		return list[0]
	}
	out := *list[0]
	out.Rows, out.data, out.scales = 0, nil, nil
	if out.levels != nil {
		l := *out.levels
		l.Rows, l.Codes, l.Scales, l.Zeros = 0, nil, nil, nil
		out.levels = &l
	}
	for _, t := range list {
		out.Rows += t.Rows
		out.data, out.scales = append(out.data, t.data...), append(out.scales, t.scales...)
		if l := out.levels; l != nil {
			l.Rows += t.Rows
			l.Codes, l.Scales = append(l.Codes, t.levels.Codes...), append(l.Scales, t.levels.Scales...)
			l.Zeros = append(l.Zeros, t.levels.Zeros...)
		}
	}
	return &out
}

// spilled is from how many bytes on Spill moves them.
const spilled = 1 << 20

// Spill is a tensor with what it holds in memory in files of the system, until the model is closed; small ones, and all where that cannot
// be, stay.
func (m *Model) Spill(t *Tensor) *Tensor {
	move := func(b []byte) []byte {
		if len(b) < spilled || m.spills != nil && m.spills.Holds(b) {
			return b
		}
		if moved := m.spill(func(yield func([]byte) bool) { yield(b) }); moved != nil {
			return moved
		}
		return b
	}
	out := *t
	out.data, out.scales = move(t.data), move(t.scales)
	if t.levels != nil {
		l := *t.levels
		l.Codes = move(l.Codes)
		out.levels = &l
	}
	return &out
}

// spill returns a copy of pieces in a file of the system, nil where that cannot be.
func (m *Model) spill(pieces iter.Seq[[]byte]) []byte {
	if m.spills == nil {
		m.spills = &file.Maps{}
	}
	moved := m.spills.SpillAll(pieces)
	if moved != nil {
		m.spills.Forget(moved)
	}
	return moved
}

// Change is a tensor of float32 with what f makes of the elements of t, each at its place; a large one lies in files of the system, as
// Spill has it.
func (m *Model) Change(t *Tensor, f func(i int, v float64) float64) *Tensor {
	rows := max(1, spilled/(4*t.Cols))
	pieces := func(yield func([]byte) bool) {
		for from := 0; from < t.Rows; from += rows {
			piece := t.Strip(from, min(rows, t.Rows-from))
			data := piece.Changed(func(i int, v float64) float64 { return f(from*t.Cols+i, v) }).data
			if m.Forget(piece); !yield(data) {
				return
			}
		}
	}
	var data []byte
	if 4*t.Len() >= spilled {
		data = m.spill(pieces)
	}
	if data == nil {
		for piece := range pieces {
			data = append(data, piece...)
		}
	}
	return NewTensor(t.Part, t.Name, t.Rows, t.Cols, F32, data, nil, 0)
}

// Changed is Change in memory.
func (t *Tensor) Changed(f func(i int, v float64) float64) *Tensor {
	data := make([]byte, 0, 4*t.Len())
	for i, v := range t.All() {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(f(i, float64(v)))))
	}
	return NewTensor(t.Part, t.Name, t.Rows, t.Cols, F32, data, nil, 0)
}

// keptHead is what stands in front of the bytes of a tensor that is kept.
type keptHead struct {
	Part       Part
	Name       string
	Rows, Cols int
	Type       Type
	Group      int     `json:",omitempty"`
	Lengths    [3]int  // data, scales; or codes, scales, zero points
	Method     string  `json:",omitempty"` // and Scheme: of levels
	Scheme     string  `json:",omitempty"`
	Scale      string  `json:",omitempty"`
	Global     float32 `json:",omitempty"`
}

// AppendKept appends a tensor of NewTensor or NewPacked, for ParseKept.
func (t *Tensor) AppendKept(b []byte) []byte {
	h := keptHead{Part: t.Part, Name: t.Name, Rows: t.Rows, Cols: t.Cols, Type: t.Type, Group: t.Group}
	parts := [3][]byte{t.data, t.scales, nil}
	if l := t.levels; l != nil {
		h.Method, h.Scheme, h.Scale, h.Global, h.Group = l.Scheme.Method, l.Scheme.Name, l.Scale, l.Global, l.Group
		scales, _ := binary.Append(nil, binary.LittleEndian, l.Scales) // no error: float32 has a size
		parts = [3][]byte{l.Codes, scales, l.Zeros}
	}
	for i, p := range parts {
		h.Lengths[i] = len(p)
	}
	head, _ := json.Marshal(h) // no error: numbers are finite
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(head))), head...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// ParseKept is the tensor that AppendKept has appended to nothing, whose bytes stay in use.
func ParseKept(b []byte) (*Tensor, error) {
	short := errors.New("a tensor that was kept is not whole")
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return nil, short
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	var h keptHead
	if err := json.Unmarshal(b[4:n], &h); err != nil {
		return nil, err
	}
	var parts [3][]byte
	at := n
	for i, size := range h.Lengths {
		if size < 0 || size > len(b)-at {
			return nil, short
		}
		parts[i], at = b[at:at+size:at+size], at+size
	}
	if h.Scheme == "" {
		return NewTensor(h.Part, h.Name, h.Rows, h.Cols, h.Type, parts[0], parts[1], h.Group), nil
	}
	s := SchemeOf(h.Method, h.Scheme)
	if s == nil {
		return nil, fmt.Errorf("there is no %s of %s", h.Scheme, h.Method)
	}
	l := &Levels{Scheme: s, Rows: h.Rows, Cols: h.Cols, Group: h.Group, Height: max(s.Height, 1), Codes: parts[0],
		Scales: make([]float32, len(parts[1])/4), Scale: h.Scale, Zeros: parts[2], Global: h.Global}
	if len(l.Zeros) == 0 {
		l.Zeros = nil
	}
	_, err := binary.Decode(parts[1], binary.LittleEndian, l.Scales)
	return NewPacked(h.Part, h.Name, l), err
}
