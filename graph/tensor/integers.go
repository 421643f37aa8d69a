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

// WithIntegers returns a tensor like t with other integers, in memory order; those must fit. It panics where Integers gives nil.
func (t *Tensor) WithIntegers(q []int32) *Tensor {
	out := *t
	switch t.Data.(type) {
	case []int8:
		out.Data = narrow[int8](q)
	case []uint8:
		out.Data = narrow[uint8](q)
	case []int16:
		out.Data = narrow[int16](q)
	case []uint16:
		out.Data = narrow[uint16](q)
	case []int32:
		out.Data = append([]int32(nil), q...)
	default:
		panic("tensor: " + t.Type() + " holds no integers")
	}
	return &out
}

func narrow[T int8 | uint8 | int16 | uint16](q []int32) []T {
	out := make([]T, len(q))
	for i, v := range q {
		out[i] = T(v)
	}
	return out
}
