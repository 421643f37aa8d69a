package ref

import "qwb/kernels/qmath"

// QProduct multiplies codes element by element: dst[i] = a[i] * b[i] as m prescribes. All have one length, dst may be a or b;
// an operand that is broadcast is expanded before.
func QProduct[T Code](m *qmath.Product, dst, a, b []T) {
	for i := range dst {
		dst[i] = T(m.At(int32(a[i]), int32(b[i])))
	}
}
