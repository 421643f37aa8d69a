package tensor

// Integers returns the elements of a tensor of 8-, 16- or 32-bit integers (uint32 apart) as int32, in memory order; nil for other
// types. Those of an int32 tensor are its own.
func (t *Tensor) Integers() []int32 {
	switch d := t.Data.(type) {
	case []int8:
		return widen(d)
	case []uint8:
		return widen(d)
	case []int16:
		return widen(d)
	case []uint16:
		return widen(d)
	case []int32:
		return d
	}
	return nil
}

func widen[T int8 | uint8 | int16 | uint16](s []T) []int32 {
	out := make([]int32, len(s))
	for i, v := range s {
		out[i] = int32(v)
	}
	return out
}
