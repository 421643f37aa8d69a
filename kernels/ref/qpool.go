package ref

import "qwb/kernels/qmath"

// QMaxPool takes the largest code of every window; padding does not take part. A window without input gives empty.
func QMaxPool[T Code](dst, src []T, s ConvShape, empty T) {
	s = s.Full()
	s.eachOutput(func(n, z, y, x, at int) {
		for c := range s.C {
			acc, any := empty, false
			s.eachInput(n, z, y, x, func(p int, inside bool) {
				if inside && (!any || src[p*s.C+c] > acc) {
					acc, any = src[p*s.C+c], true
				}
			})
			dst[at*s.C+c] = acc
		}
	})
}

// QAveragePool takes the mean of the codes of every window, in the order kd, kh, kw. by(n) is the arithmetic for a window of
// which n positions count: those inside the input, with includePad those inside the input and its padding, where the code is
// the zero point. A window without such positions gives empty. n is never above KD*KH*KW.
func QAveragePool[T Code](by func(n int) *qmath.Average, dst, src []T, s ConvShape, includePad bool, empty T) {
	s = s.Full()
	s.eachOutput(func(n, z, y, x, at int) {
		count := s.WindowCount(z, y, x, includePad)
		for c := range s.C {
			dst[at*s.C+c] = empty
			if count == 0 {
				continue
			}
			m := mean{a: by(count)}
			terms := 0
			s.eachInput(n, z, y, x, func(p int, inside bool) {
				if inside {
					m.add(int32(src[p*s.C+c]))
					terms++
				}
			})
			for range count - terms {
				m.add(m.a.X.ZeroPoint)
			}
			dst[at*s.C+c] = T(m.code())
		}
	})
}

// QMean takes the mean over the middle axis of src, [outer, a.N, inner]; dst is [outer, inner].
func QMean[T Code](a *qmath.Average, dst, src []T, outer, inner int) {
	for i := range outer {
		for j := range inner {
			m := mean{a: a}
			for k := range a.N {
				m.add(int32(src[(i*a.N+k)*inner+j]))
			}
			dst[i*inner+j] = T(m.code())
		}
	}
}

// mean is the sum of the terms of one average.
type mean struct {
	a     *qmath.Average
	sum   int32
	float float32
}

func (m *mean) add(q int32) {
	if m.a.Float() {
		m.float += m.a.AverageTerm(q)
	} else {
		m.sum += m.a.Term(q)
	}
}

func (m *mean) code() int32 {
	if m.a.Float() {
		return m.a.AtFloat(m.float)
	}
	return m.a.At(m.sum)
}
