package bench

import (
	"fmt"

	"qwb/kernels"
)

// mathKernels are functions of every element, and operations on rows: of BERT, a sequence of 128 with 12 heads.
func mathKernels() []Kernel {
	return []Kernel{
		function(kernels.OpExp, (*kernels.Table).Exp),
		function(kernels.OpSigmoid, (*kernels.Table).Sigmoid),
		function(kernels.OpTanh, (*kernels.Table).Tanh),
		function(kernels.OpErf, (*kernels.Table).Erf),
		function(kernels.OpSwish, func(t *kernels.Table, dst, a []float32) { t.Swish(dst, a, 1) }),
		function(kernels.OpGelu, (*kernels.Table).Gelu),
		function(kernels.OpGeluTanh, (*kernels.Table).GeluTanh),
		function(kernels.OpHardSigmoid, func(t *kernels.Table, dst, a []float32) { t.HardSigmoid(dst, a, 0.2, 0.5) }),
		function(kernels.OpHardSwish, (*kernels.Table).HardSwish),
		function(kernels.OpSqrt, (*kernels.Table).Sqrt), function(kernels.OpRound, (*kernels.Table).Round),
		function(kernels.OpAddScalar, func(t *kernels.Table, dst, a []float32) { t.AddScalar(dst, a, 0.5) }),
		function(kernels.OpMulScalar, func(t *kernels.Table, dst, a []float32) { t.MulScalar(dst, a, 0.5) }),
		function(kernels.OpDivScalar, func(t *kernels.Table, dst, a []float32) { t.DivScalar(dst, a, 3) }),
		function(kernels.OpScalarSub, func(t *kernels.Table, dst, a []float32) { t.ScalarSub(dst, 0.5, a) }),
		function(kernels.OpScalarDiv, func(t *kernels.Table, dst, a []float32) { t.ScalarDiv(dst, 0.5, a) }),
		rows(kernels.OpRowExp, "softmax", 12*128, 128, (*kernels.Table).Softmax),
		rows(kernels.OpNormalize, "layer-norm", 128, 768, layerNorm),
		rows(kernels.OpRowMax, "maxima", 12*128, 128, func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) {
			t.Maxima(par, dst[:len(src)/n], src, n)
		}),
		rows(kernels.OpRowSum, "sums", 128, 768, func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) {
			t.Sums(par, dst[:len(src)/n], src, n, 1)
		}),
		rows(kernels.OpRowSquares, "square-sums", 128, 768, func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) {
			t.SquareSums(par, dst[:len(src)/n], src, n)
		}),
	}
}

// function is told in elements, not bytes: most of them wait for arithmetic.
func function(op kernels.Op, f func(t *kernels.Table, dst, a []float32)) Kernel {
	k := unary(op, small, f)
	k.Unit = GElems
	return k
}

// rows is an operation on count rows of n elements.
func rows(op kernels.Op, what string, count, n int, f func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int)) Kernel {
	elements := float64(count * n)
	return Kernel{Op: op, Shape: fmt.Sprintf("%s rows=%d n=%d", what, count, n), Mode: "fp32", Unit: GElems, Bound: kernels.PeakRead,
		Ops: elements, Bytes: 8 * elements,
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst := numbers(count*n), make([]float32, count*n)
			return func(par kernels.Parallel) { f(t, par, dst, src, n) }
		}}
}

func layerNorm(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int) {
	t.LayerNorm(par, dst, src, nil, nil, n, 1e-5, nil, nil)
}
