package tensor

import "slices"

// NaN is the index of the first element of a float tensor, of whatever format, that is NaN, in the order of its memory; -1 where there is
// none, and for other types and formats without NaN.
func (t *Tensor) NaN() int {
	halves := func(infinity uint16) int {
		return slices.IndexFunc(Of[uint16](t), func(b uint16) bool { return b&0x7fff > infinity })
	}
	codes := func(is func(b uint8) bool) int { return slices.IndexFunc(Of[uint8](t), is) }
	switch t.DType {
	case Float32:
		return slices.IndexFunc(t.F32(), func(x float32) bool { return x != x })
	case Float64:
		return slices.IndexFunc(Of[float64](t), func(x float64) bool { return x != x })
	case Float16:
		return halves(0x7c00)
	case BFloat16:
		return halves(0x7f80)
	case Float8E4M3FN:
		return codes(func(b uint8) bool { return b&0x7f == 0x7f })
	case Float8E5M2:
		return codes(func(b uint8) bool { return b&0x7f > 0x7c })
	case Float8E4M3FNUZ, Float8E5M2FNUZ:
		return codes(func(b uint8) bool { return b == 0x80 })
	case Float8E8M0:
		return codes(func(b uint8) bool { return b == 0xff })
	}
	return -1
}
