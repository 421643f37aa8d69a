package tensor

// Integers returns the codes of a quantized tensor as int32, in memory order: of integers of 2 to 32 bits (uint32 apart) the numbers, of
// floats of 4 and 8 bits (float8e8m0 too) the bit patterns. It is nil for other types. Those of an int32 tensor are its own.
func (t *Tensor) Integers() []int32 {
	if d, ok := t.Data.([]int32); ok {
		return d
	}
	if !t.HasIntegers() {
		return nil
	}
	out := make([]int32, t.Len())
	t.IntegersAt(0, out)
	return out
}

// HasIntegers reports whether the elements have codes, as Integers gives them.
func (t *Tensor) HasIntegers() bool {
	switch t.Data.(type) {
	case []int8, []uint8, []int16, []int32:
		return true
	case []uint16:
		return t.DType == Uint16
	}
	return false
}

// IntegersAt writes the codes of the elements from on, in memory order, to dst, as many as it has room for. Data without codes, where
// Integers gives nil, leave it as it is.
func (t *Tensor) IntegersAt(from int, dst []int32) {
	switch d := t.Data.(type) {
	case []int8:
		widen(dst, d[from:])
	case []uint8:
		if bits := t.DType.Bits(); bits < 8 {
			unpack(dst, d, from, bits, t.DType == Int4 || t.DType == Int2)
			return
		}
		widen(dst, d[from:])
	case []int16:
		widen(dst, d[from:])
	case []uint16:
		widen(dst, d[from:])
	case []int32:
		copy(dst, d[from:])
	}
}

func widen[T int8 | uint8 | int16 | uint16](dst []int32, s []T) {
	s = s[:len(dst)]
	for i, v := range s {
		dst[i] = int32(v)
	}
}

// unpack reads codes of which the first of all lies in the low bits of a byte, as ONNX packs those of fewer than 8 bits.
func unpack(dst []int32, data []uint8, from, bits int, signed bool) {
	for k := range dst {
		i := from + k
		u := int32(data[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1)
		if signed && u >= 1<<(bits-1) {
			u -= 1 << bits
		}
		dst[k] = u
	}
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
