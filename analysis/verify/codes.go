package verify

import "qwb/graph/tensor"

// codesOf returns integers of up to 32 bits as int32, in memory order; nil for other types.
func codesOf(t *tensor.Tensor) []int32 {
	switch d := t.Data.(type) {
	case []int8:
		return widened(d)
	case []uint8:
		return widened(d)
	case []int16:
		return widened(d)
	case []uint16:
		return widened(d)
	case []int32:
		return d
	}
	return nil
}

func widened[T int8 | uint8 | int16 | uint16](s []T) []int32 {
	out := make([]int32, len(s))
	for i, v := range s {
		out[i] = int32(v)
	}
	return out
}

// centered returns integers less their zero point, as float32 and exact.
func centered(t *tensor.Tensor, zero int32) *tensor.Tensor {
	out := tensor.New(tensor.Float32, t.Shape...)
	dst := out.F32()
	for i, q := range codesOf(t) {
		dst[i] = float32(q - zero)
	}
	return out
}

// broadcast is the shape of an elementwise operation, by the rules of ONNX; the shapes are known to fit.
func broadcast(shapes ...[]int) []int {
	var out []int
	for _, s := range shapes {
		for len(out) < len(s) {
			out = append([]int{1}, out...)
		}
	}
	for _, s := range shapes {
		for i, n := range s {
			if a := len(out) - len(s) + i; n != 1 {
				out[a] = n
			}
		}
	}
	return out
}

// source lists, for every element of out, the element of a tensor of the given shape that is read for it.
func source(out, shape []int) []int {
	index := make([]int, tensor.Count(out))
	for i := range index {
		at, size, rest := 0, 1, i
		for a := len(out) - 1; a >= 0; a-- {
			pos := rest % out[a]
			rest /= out[a]
			if k := a - len(out) + len(shape); k >= 0 {
				if shape[k] != 1 {
					at += pos * size
				}
				size *= shape[k]
			}
		}
		index[i] = at
	}
	return index
}
