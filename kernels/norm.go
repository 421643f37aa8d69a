package kernels

import "qwb/kernels/ref"

// Softmax computes ref.Softmax on each of len(dst)/n rows of n elements. dst may be src.
func Softmax(par Parallel, dst, src []float32, n int) {
	eachRow(par, dst, src, n, ref.Softmax)
}

// LayerNorm computes ref.LayerNorm on each of len(dst)/n rows of n elements. scale and bias have n elements or are nil. dst
// may be src.
func LayerNorm(par Parallel, dst, src, scale, bias []float32, n int, eps float64) {
	eachRow(par, dst, src, n, func(d, s []float32) { ref.LayerNorm(d, s, scale, bias, eps) })
}

func eachRow(par Parallel, dst, src []float32, n int, f func(dst, src []float32)) {
	if n <= 0 {
		return
	}
	checkLen("src", len(src), len(dst))
	par.slices(len(dst)/n, max(1, 1<<13/n), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(dst[i*n:][:n], src[i*n:][:n])
		}
	})
}
