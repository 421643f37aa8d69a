package tensor

// Integers returns the codes of a quantized tensor as int32, in memory order: of integers of 2 to 32 bits (uint32 apart) the numbers, of
// floats of 4 and 8 bits (float8e8m0 too) the bit patterns. It is nil for other types. Those of an int32 tensor are its own.
func (t *Tensor) Integers() []int32 {
	switch d := t.Data.(type) {
	case []int8:
		return widen(d)
	case []uint8:
		if bits := t.DType.Bits(); bits < 8 {
			return unpack(d, bits, t.Len(), t.DType == Int4 || t.DType == Int2)
		}
		return widen(d)
	case []int16:
		return widen(d)
	case []uint16:
		if t.DType == Uint16 {
			return widen(d)
		}
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

// unpack returns n codes of which the first lies in the low bits of a byte, as ONNX packs those of fewer than 8 bits.
func unpack(data []uint8, bits, n int, signed bool) []int32 {
	out := make([]int32, n)
	for i := range out {
		u := int32(data[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1)
		if signed && u >= 1<<(bits-1) {
			u -= 1 << bits
		}
		out[i] = u
	}
	return out
}

// WithIntegers returns a tensor like t with other codes, in memory order; those must fit. It panics where Integers gives nil.
func (t *Tensor) WithIntegers(q []int32) *Tensor {
	out := *t
	switch t.Data.(type) {
	case []int8:
		out.Data = narrow[int8](q)
	case []uint8:
		if bits := t.DType.Bits(); bits < 8 {
			out.Data = pack(t.DType, q)
			break
		}
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

// pack is the inverse of unpack; what is left of the last byte is 0.
func pack(d DType, q []int32) []uint8 {
	bits := d.Bits()
	out := make([]uint8, d.Bytes(len(q)))
	for i, v := range q {
		out[i*bits/8] |= uint8(v&(1<<bits-1)) << (i * bits % 8)
	}
	return out
}
