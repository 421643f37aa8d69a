package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Recording is what the tensors of a program hold in the run that a format writes the numbers of: taken from the run itself, before its
// writer sees them, so that reading back compares the file with the run and does not need another one. It lies in Input.State.
type Recording struct {
	Kind   ItemKind
	Shapes map[lower.TensorID][]int // of what was seen
	items  []*Item
}

// See is what Executor.Show takes.
func (r *Recording) See(p *lower.Program) func(id lower.TensorID, t *tensor.Tensor) error {
	r.Shapes = map[lower.TensorID][]int{}
	return func(id lower.TensorID, t *tensor.Tensor) error {
		r.Shapes[id] = slices.Clone(t.Shape)
		raw, err := binary.Append(nil, binary.LittleEndian, t.ToRowMajor().Data)
		r.items = append(r.items, &Item{At: TensorName(p.Tensors[id].Name), Kind: r.Kind, Raw: raw, Size: t.DType.Bytes(1)})
		return err
	}
}

// Recorded yields the recording that a write has left in in.State.
func Recorded(in *Input, yield func(*Item) error) error {
	r, ok := in.State.(*Recording)
	if !ok {
		return errors.New("no run was recorded")
	}
	for _, it := range r.items {
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// differentBytes is differs of elements that are bytes, which have the same length and size.
func differentBytes(plan, file []byte, size int) (i, n int) {
	if i = -1; bytes.Equal(plan, file) {
		return i, 0
	}
	for k := 0; k < len(plan); k += size {
		if !bytes.Equal(plan[k:k+size], file[k:k+size]) {
			if n++; i < 0 {
				i = k / size
			}
		}
	}
	return i, n
}
