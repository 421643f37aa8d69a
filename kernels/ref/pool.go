package ref

import "math"

// MaxPool takes, for every output position and channel, the largest input value of the window, in the order kd, kh, kw:
//
//	acc = -Inf; for every position inside the input: if !(v <= acc) { acc = v }
//
// A NaN in the window gives NaN (nothing replaces a NaN), of equal values the first stays, padding does not take part and a
// window without input gives -Inf.
func MaxPool(dst, src []float32, s ConvShape) {
	s = s.Full()
	s.eachOutput(func(n, z, y, x, at int) {
		for c := range s.C {
			acc := float32(math.Inf(-1))
			s.eachInput(n, z, y, x, func(p int, inside bool) {
				if inside {
					acc = Larger(acc, src[p*s.C+c])
				}
			})
			dst[at*s.C+c] = acc
		}
	})
}

// Larger returns acc unless v is larger or one of the two is NaN, in which case it returns the (first) NaN.
func Larger(acc, v float32) float32 {
	if acc == acc && !(v <= acc) {
		return v
	}
	return acc
}

// AveragePool takes, for every output position and channel, the sum of the window's input values in the order kd, kh, kw,
// divided by the number of window positions inside the input; with includePad, inside the input and its padding (positions
// beyond the end padding, which rounding the output size up can make, never count). A window without such positions gives 0.
func AveragePool(ar Arith, dst, src []float32, s ConvShape, includePad bool) {
	s = s.Full()
	s.eachOutput(func(n, z, y, x, at int) {
		count := s.WindowCount(z, y, x, includePad)
		for c := range s.C {
			acc := 0.0
			s.eachInput(n, z, y, x, func(p int, inside bool) {
				if inside {
					acc = ar.Add(acc, src[p*s.C+c])
				}
			})
			dst[at*s.C+c] = ar.quotient(acc, count)
		}
	})
}

// GlobalAverage takes, for every image and channel, the sum over all positions in memory order divided by their number.
func GlobalAverage(ar Arith, dst, src []float32, n, positions, c int) {
	for i := range n {
		for j := range c {
			acc := 0.0
			for p := range positions {
				acc = ar.Add(acc, src[(i*positions+p)*c+j])
			}
			dst[i*c+j] = ar.quotient(acc, positions)
		}
	}
}

// quotient is acc / n with one more rounding to float32, 0 for n = 0.
func (ar Arith) quotient(acc float64, n int) float32 {
	switch {
	case n == 0:
		return 0
	case ar == Float64:
		return float32(acc / float64(n))
	}
	return float32(acc) / float32(n)
}

// WindowCount is the divisor of AveragePool at output position (z, y, x).
func (s ConvShape) WindowCount(z, y, x int, includePad bool) int {
	s = s.Full()
	axis := func(first, k, dil, size, begin, end int) (count int) {
		lo, hi := 0, size
		if includePad {
			lo, hi = -begin, size+end
		}
		for i := range k {
			if p := first + i*dil; p >= lo && p < hi {
				count++
			}
		}
		return count
	}
	return axis(z*s.StrideD-s.PadFront, s.KD, s.DilD, s.D, s.PadFront, s.PadBack) *
		axis(y*s.StrideH-s.PadTop, s.KH, s.DilH, s.H, s.PadTop, s.PadBottom) *
		axis(x*s.StrideW-s.PadLeft, s.KW, s.DilW, s.W, s.PadLeft, s.PadRight)
}

// eachInput calls f for every window position of an output position.
func (s ConvShape) eachInput(n, z, y, x int, f func(p int, inside bool)) {
	for kd := range s.KD {
		for kh := range s.KH {
			for kw := range s.KW {
				f(s.at(n, z*s.StrideD-s.PadFront+kd*s.DilD, y*s.StrideH-s.PadTop+kh*s.DilH, x*s.StrideW-s.PadLeft+kw*s.DilW))
			}
		}
	}
}
