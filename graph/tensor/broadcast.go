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
