package kernels

import "qwb/kernels/ref"

// The elementwise operations work on len(dst) elements; dst may be one of the sources. Every result is the IEEE 754 float32
// result of the operation, so there is nothing for rows to differ in.

// Add is dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Sub is dst[i] = a[i] - b[i].
func Sub(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// Mul is dst[i] = a[i] * b[i].
func Mul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Div is dst[i] = a[i] / b[i].
func Div(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// Limits is dst[i] = a[i], lo if that is less than lo, then hi if that is above hi: Relu with (0, +Inf), Clip. NaN passes,
// and so does -0 where lo is 0.
func Limits(dst, a []float32, lo, hi float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = ref.Limit(a[i], lo, hi)
	}
}

// AddScalar is dst[i] = a[i] + b.
func AddScalar(dst, a []float32, b float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b
	}
}

// MulScalar is dst[i] = a[i] * b.
func MulScalar(dst, a []float32, b float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b
	}
}

// AddRow is dst[i*n+j] = a[i*n+j] + b[j], n = len(b): one value per channel of a channels-last tensor. len(dst) must be a
// multiple of n.
func AddRow(dst, a, b []float32) {
	for i := 0; i < len(dst); i += len(b) {
		Add(dst[i:i+len(b)], a[i:], b)
	}
}

// MulRow is dst[i*n+j] = a[i*n+j] * b[j], n = len(b). len(dst) must be a multiple of n.
func MulRow(dst, a, b []float32) {
	for i := 0; i < len(dst); i += len(b) {
		Mul(dst[i:i+len(b)], a[i:], b)
	}
}

// MulAddRow is dst[i*n+j] = float32(a[i*n+j]*scale[j]) + bias[j], n = len(scale): a batch normalization with its statistics
// folded. len(dst) must be a multiple of n.
func MulAddRow(dst, a, scale, bias []float32) {
	n := len(scale)
	bias = bias[:n]
	for i := 0; i < len(dst); i += n {
		d, x := dst[i:i+n], a[i:][:n]
		for j, v := range x {
			d[j] = float32(v*scale[j]) + bias[j]
		}
	}
}
