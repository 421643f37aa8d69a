package verify

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Recording is what another engine or a board computed for one input: tensors by name.
type Recording interface {
	// Tensor returns the tensor of a name, nil where it was not recorded.
	Tensor(name string) (*tensor.Tensor, error)
}

// recorded returns a recorded tensor in the program's type, nil where there is none. Integers may come in any type that holds them.
func recorded(rec Recording, t *lower.Tensor) (*tensor.Tensor, error) {
	got, err := rec.Tensor(t.Name)
	if err != nil || got == nil {
		return nil, err
	}
	got = got.ToRowMajor()
	if got.DType == t.DType {
		return got, nil
	}
	wrong := fmt.Errorf("verify: %q was recorded as %s, the program has %s", t.Name, got.Type(), t.DType)
	values, ok := wholes(got)
	if !ok || !t.Quantized() {
		return nil, wrong
	}
	out := tensor.New(t.DType, got.Shape...)
	for i, q := range values {
		fits := true
		switch d := out.Data.(type) {
		case []int8:
			d[i] = int8(q)
			fits = int64(d[i]) == q
		case []uint8:
			d[i] = uint8(q)
			fits = int64(d[i]) == q
		case []int16:
			d[i] = int16(q)
			fits = int64(d[i]) == q
		case []uint16:
			d[i] = uint16(q)
			fits = int64(d[i]) == q
		}
		if !fits {
			return nil, fmt.Errorf("%w: element %d is %d", wrong, i, q)
		}
	}
	return out, nil
}

// wholes reads a tensor as integers, if that is what it holds.
func wholes(t *tensor.Tensor) ([]int64, bool) {
	if d := t.I64(); d != nil {
		return d, true
	}
	out := make([]int64, t.Len())
	if x := t.F32(); x != nil {
		for i, v := range x {
			if out[i] = int64(v); float32(out[i]) != v {
				return nil, false
			}
		}
		return out, true
	}
	codes := t.Integers()
	for i, q := range codes {
		out[i] = int64(q)
	}
	return out, codes != nil
}
