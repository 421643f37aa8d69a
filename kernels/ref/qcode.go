package ref

import "qwb/kernels/qmath"

// Code is a type that codes are stored in. The kernels named Q... work on codes of any of them, by the prepared operators of
// qmath; a tensor's grid says what its codes mean.
type Code interface {
	~uint8 | ~int8 | ~uint16 | ~int16
}

// Quantize writes the codes of src to dst, of the same length.
func Quantize[T Code](q qmath.Quantizer, dst []T, src []float32) {
	for i, x := range src {
		dst[i] = T(q.At(x))
	}
}

// Dequantize writes the numbers that the codes src stand for to dst, of the same length.
func Dequantize[T Code](g qmath.Grid, dst []float32, src []T) {
	for i, q := range src {
		dst[i] = g.Dequantize(int32(q))
	}
}

// QRescale moves the codes src to another grid. dst has the same length and may be src; the types may differ.
func QRescale[T, S Code](r *qmath.Rescale, dst []T, src []S) {
	for i, q := range src {
		dst[i] = T(r.At(int32(q)))
	}
}

// QTable looks the 8-bit codes src up, by their raw bytes. dst has the same length and may be src.
func QTable[T, S ~uint8 | ~int8](t *qmath.Table, dst []T, src []S) {
	for i, q := range src {
		dst[i] = T(t[byte(q)])
	}
}
