package ref

import "qwb/kernels/qmath"

// QSum adds, or subtracts, codes element by element: dst[i] = a[i] + b[i] as s prescribes. All have one length, dst may be a
// or b; an operand that is broadcast is expanded before.
func QSum[T Code](s *qmath.Sum, dst, a, b []T) {
	for i := range dst {
		dst[i] = T(s.At(int32(a[i]), int32(b[i])))
	}
}
