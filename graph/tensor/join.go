package tensor

import (
	"fmt"
	"slices"
)

// Join puts tensors of one type and shape together along axis 0.
func Join(parts []*Tensor) (*Tensor, error) {
	first := parts[0]
	for _, p := range parts {
		if len(p.Shape) == 0 || p.DType != first.DType || !slices.Equal(p.Shape, first.Shape) {
			return nil, fmt.Errorf("%s beside %s", p.Type(), first.Type())
		}
	}
	shape := slices.Clone(first.Shape)
	shape[0] *= len(parts)
	out := &Tensor{DType: first.DType, Shape: shape}
	switch first.Data.(type) {
	case []float32:
		out.Data = joined[float32](parts)
	case []int64:
		out.Data = joined[int64](parts)
	case []int32:
		out.Data = joined[int32](parts)
	case []uint8:
		out.Data = joined[uint8](parts)
	case []int8:
		out.Data = joined[int8](parts)
	case []bool:
		out.Data = joined[bool](parts)
	default:
		return nil, fmt.Errorf("tensors of type %s are not put into batches", first.DType)
	}
	return out, nil
}

func joined[T any](parts []*Tensor) []T {
	all := make([]T, 0, len(parts)*parts[0].Len())
	for _, p := range parts {
		all = append(all, Of[T](p.ToRowMajor())...)
	}
	return all
}

// Part returns part k of n of t along axis 0, as a copy.
func (t *Tensor) Part(k, n int) (*Tensor, error) {
	if len(t.Shape) == 0 || n < 1 || t.Shape[0]%n != 0 {
		return nil, fmt.Errorf("%s does not fall into %d parts", t.Type(), n)
	}
	t = t.ToRowMajor()
	shape := slices.Clone(t.Shape)
	shape[0] /= n
	out := New(t.DType, shape...)
	size := out.Len()
	switch d := t.Data.(type) {
	case []float32:
		copy(Of[float32](out), d[k*size:])
	case []int64:
		copy(Of[int64](out), d[k*size:])
	case []int32:
		copy(Of[int32](out), d[k*size:])
	case []uint8:
		copy(Of[uint8](out), d[k*size:])
	case []int8:
		copy(Of[int8](out), d[k*size:])
	case []bool:
		copy(Of[bool](out), d[k*size:])
	default:
		return nil, fmt.Errorf("%s is not cut into samples", t.Type())
	}
	return out, nil
}
