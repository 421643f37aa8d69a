package exec

import (
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// minifloats are the formats of the element types that hold floats of up to 16 bits as bit patterns, f8e8m0 apart.
var minifloats = map[tensor.DType]qmath.Minifloat{
	tensor.Float16: qmath.Half, tensor.BFloat16: qmath.Brain,
	tensor.Float8E4M3FN: qmath.E4M3FN, tensor.Float8E4M3FNUZ: qmath.E4M3FNUZ,
	tensor.Float8E5M2: qmath.E5M2, tensor.Float8E5M2FNUZ: qmath.E5M2FNUZ, tensor.Float4E2M1: qmath.E2M1,
}

// isPacked reports whether elements of type d share bytes.
func isPacked(d tensor.DType) bool { b := d.Bits(); return b > 0 && b < 8 }

// readable returns the elements of t as a slice of a Go number type that holds them exactly: bit patterns are decoded, truth
// values are 0 and 1. It is t's own data where that is one already, nil for strings and complex numbers.
func readable(t *tensor.Tensor) any {
	switch d := t.Data.(type) {
	case []bool:
		return mapSlice(d, func(b bool) uint8 {
			if b {
				return 1
			}
			return 0
		})
	case []uint16:
		if t.DType != tensor.Uint16 {
			return decodeHalves(make([]float32, len(d)), d, t.DType)
		}
	case []uint8:
		switch t.DType {
		case tensor.Uint8:
		case tensor.Int4, tensor.Uint4, tensor.Int2, tensor.Uint2:
			return unpackSmall(t)
		case tensor.Float8E8M0:
			return mapSlice(d, qmath.DecodeE8M0)
		default:
			f := minifloats[t.DType]
			if isPacked(t.DType) {
				d = unpackBits(t)
			}
			return mapSlice(d, func(code uint8) float32 { return f.Decode(uint16(code)) })
		}
	case []string, []complex64, []complex128:
		return nil
	}
	return t.Data
}

// decodeHalves reads f16 or bf16.
func decodeHalves(dst []float32, src []uint16, d tensor.DType) []float32 {
	if d == tensor.Float16 {
		for i, v := range src {
			dst[i] = qmath.FromHalf(v)
		}
		return dst
	}
	for i, v := range src {
		dst[i] = qmath.FromBrain(v)
	}
	return dst
}

// numbersOf returns the elements of t in memory order as T, for which nothing is lost but by a narrower T; nil for types that hold
// no numbers.
func numbersOf[T number](t *tensor.Tensor) []T {
	switch d := readable(t).(type) {
	case []T:
		return d
	case []float32:
		return convertTo[T](d)
	case []float64:
		return convertTo[T](d)
	case []int8:
		return convertTo[T](d)
	case []int16:
		return convertTo[T](d)
	case []int32:
		return convertTo[T](d)
	case []int64:
		return convertTo[T](d)
	case []uint8:
		return convertTo[T](d)
	case []uint16:
		return convertTo[T](d)
	case []uint32:
		return convertTo[T](d)
	case []uint64:
		return convertTo[T](d)
	}
	return nil
}

// Floats returns the numbers of a float16, bfloat16 or float64 tensor as float32, in the same layout: halves exactly, doubles rounded to
// nearest, what is beyond float32 infinite. A float32 tensor is returned as it is, and of other types nil.
func Floats(t *tensor.Tensor) *tensor.Tensor {
	switch {
	case t.DType == tensor.Float32:
		return t
	case !t.DType.IsFloat():
		return nil
	}
	return &tensor.Tensor{DType: tensor.Float32, Shape: t.Shape, Layout: t.Layout, Data: numbersOf[float32](t)}
}

// unpackBits returns the codes of 2- and 4-bit elements, the first element being in the low bits.
func unpackBits(t *tensor.Tensor) []uint8 {
	bits, d := t.DType.Bits(), tensor.Of[uint8](t)
	out := make([]uint8, t.Len())
	for i := range out {
		out[i] = d[i*bits/8] >> (i * bits % 8) & (1<<bits - 1)
	}
	return out
}

// packBits is the inverse of unpackBits; bits that an element has no room for are dropped.
func packBits(d tensor.DType, codes []uint8) []uint8 {
	out := make([]uint8, d.Bytes(len(codes)))
	packInto(out, d, codes)
	return out
}

func packInto(dst []uint8, d tensor.DType, codes []uint8) {
	bits := d.Bits()
	clear(dst)
	for i, v := range codes {
		dst[i*bits/8] |= v & (1<<bits - 1) << (i * bits % 8)
	}
}

// unpackSmall returns 2- and 4-bit integers.
func unpackSmall(t *tensor.Tensor) []int32 {
	bits := t.DType.Bits()
	signed := t.DType == tensor.Int4 || t.DType == tensor.Int2
	return mapSlice(unpackBits(t), func(code uint8) int32 {
		v := int32(code)
		if signed && v >= 1<<(bits-1) {
			v -= 1 << bits
		}
		return v
	})
}
