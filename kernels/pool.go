package kernels

import (
	"fmt"
	"math"

	"qwb/kernels/ref"
)

// MaxPool computes ref.MaxPool: the largest value of each window, NaN where it contains one. dst must not overlap src.
func (t *Table) MaxPool(par Parallel, dst, src []float32, s ConvShape) {
	s = checkPool("max pool", dst, src, s)
	eachWindow(par, s, func(w window) {
		out := dst[w.out*s.C:][:s.C]
		for c := range out {
			out[c] = float32(math.Inf(-1))
		}
		w.each(&s, func(p int) {
			for c, v := range src[p*s.C:][:len(out)] {
				if acc := out[c]; acc == acc && !(v <= acc) {
					out[c] = v
				}
			}
		})
	})
}

// AveragePool computes ref.AveragePool: the sum of each window over the number of its positions. dst must not overlap src.
func (t *Table) AveragePool(par Parallel, dst, src []float32, s ConvShape, includePad bool) {
	s = checkPool("average pool", dst, src, s)
	if t.Arith() == ref.Float64 {
		ref.AveragePool(ref.Float64, dst, src, s, includePad)
		return
	}
	eachWindow(par, s, func(w window) {
		out := dst[w.out*s.C:][:s.C]
		clear(out)
		w.each(&s, func(p int) {
			for c, v := range src[p*s.C:][:len(out)] {
				out[c] += v
			}
		})
		divide(out, s.WindowCount(w.z, w.y, w.x, includePad))
	})
}

// GlobalAverage computes ref.GlobalAverage: the mean over the positions of each image and channel; src is [n, positions, c],
// dst [n, c]. dst must not overlap src.
func (t *Table) GlobalAverage(par Parallel, dst, src []float32, n, positions, c int) {
	checkLen("src", len(src), n*positions*c)
	checkLen("dst", len(dst), n*c)
	if t.Arith() == ref.Float64 {
		ref.GlobalAverage(ref.Float64, dst, src, n, positions, c)
		return
	}
	par.run(n, func(i int) {
		out := dst[i*c:][:c]
		clear(out)
		for p := range positions {
			for j, v := range src[(i*positions+p)*c:][:len(out)] {
				out[j] += v
			}
		}
		divide(out, positions)
	})
}

// divide divides by a count, as ref does: by 0 gives 0.
func divide(out []float32, n int) {
	for j, v := range out {
		if out[j] = 0; n != 0 {
			out[j] = v / float32(n)
		}
	}
}

// checkPool panics where pool and slices do not fit, and returns s in full.
func checkPool(name string, dst, src []float32, s ConvShape) ConvShape {
	s = s.Full()
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("kernels: %s: %v", name, err))
	}
	if s.M != s.C {
		panic(fmt.Sprintf("kernels: %s: %d input and %d output channels", name, s.C, s.M))
	}
	checkLen("src", len(src), s.InLen())
	checkLen("dst", len(dst), s.OutLen())
	return s
}

// window is one output position: image n, position (z, y, x), number out in dst.
type window struct{ n, z, y, x, out int }

// eachWindow calls f for every output position.
func eachWindow(par Parallel, s ConvShape, f func(window)) {
	lines := s.N * s.OutD * s.OutH
	grain := max(1, 1<<16/max(1, s.OutW*s.C*s.KD*s.KH*s.KW))
	par.slices(lines, grain, func(lo, hi int) {
		for line := lo; line < hi; line++ {
			w := window{y: line % s.OutH, z: line / s.OutH, out: line * s.OutW}
			w.n, w.z = w.z/s.OutD, w.z%s.OutD
			for w.x = range s.OutW {
				f(w)
				w.out++
			}
		}
	})
}

// each calls f with the number of every input position inside the input, in the order kd, kh, kw.
func (w window) each(s *ConvShape, f func(p int)) {
	for kd := range s.KD {
		z := w.z*s.StrideD - s.PadFront + kd*s.DilD
		if z < 0 || z >= s.D {
			continue
		}
		for kh := range s.KH {
			y := w.y*s.StrideH - s.PadTop + kh*s.DilH
			if y < 0 || y >= s.H {
				continue
			}
			for kw := range s.KW {
				if x := w.x*s.StrideW - s.PadLeft + kw*s.DilW; x >= 0 && x < s.W {
					f(((w.n*s.D+z)*s.H+y)*s.W + x)
				}
			}
		}
	}
}
