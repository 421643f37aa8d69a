package tensor

import "fmt"

// Broadcast returns the shape of an elementwise operation on tensors of the given shapes, by the rules of ONNX, or an error where
// they do not fit.
func Broadcast(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for a := range out {
		out[a] = 1
		for _, s := range shapes {
			i := a - (rank - len(s))
			switch {
			case i < 0 || s[i] == 1:
			case out[a] == 1:
				out[a] = s[i]
			case out[a] != s[i]:
				return nil, fmt.Errorf("shapes %v cannot be broadcast", shapes)
			}
		}
	}
	return out, nil
}

// Stretches reports whether a tensor of shape s can be broadcast to the given shape.
func Stretches(s, to []int) bool {
	if len(s) > len(to) {
		return false
	}
	for i, d := range s {
		if d != 1 && d != to[len(to)-len(s)+i] {
			return false
		}
	}
	return true
}

// BroadcastIndex lists, for every element of out, which element of a tensor of the given shape it is computed from.
func BroadcastIndex(out, shape []int) []int {
	step := make([]int, len(out))
	for a, size := len(shape)-1, 1; a >= 0; a-- {
		if shape[a] != 1 {
			step[a+len(out)-len(shape)] = size
		}
		size *= shape[a]
	}
	index := make([]int, Count(out))
	at, pos := 0, make([]int, len(out))
	for i := range index {
		index[i] = at
		for a := len(out) - 1; a >= 0; a-- {
			pos[a]++
			at += step[a]
			if pos[a] < out[a] {
				break
			}
			at -= pos[a] * step[a]
			pos[a] = 0
		}
	}
	return index
}
