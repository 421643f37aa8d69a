package verify

import "qwb/graph/tensor"

// centered returns integers less their zero point, as float32 and exact.
func centered(t *tensor.Tensor, zero int32) *tensor.Tensor {
	out := tensor.New(tensor.Float32, t.Shape...)
	dst := out.F32()
	for i, q := range t.Integers() {
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
