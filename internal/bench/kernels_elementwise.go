package bench

import (
	"fmt"
	"math"

	"qwb/kernels"
	"qwb/kernels/qmath"
)

// elementwiseKernels work on a tensor that the second-level cache holds, and some on one that it does not.
func elementwiseKernels() []Kernel {
	return []Kernel{
		binary(kernels.OpAdd, small, (*kernels.Table).Add),
		binary(kernels.OpAdd, large, (*kernels.Table).Add),
		binary(kernels.OpSub, small, (*kernels.Table).Sub),
		binary(kernels.OpMul, small, (*kernels.Table).Mul),
		binary(kernels.OpDiv, small, (*kernels.Table).Div),
		unary(kernels.OpLimit, small, relu6),
		unary(kernels.OpLimit, large, relu6),
		unary(kernels.OpFake, small, fakeQuantize),
		unary(kernels.OpFake, large, fakeQuantize),
	}
}

const (
	small = 1 << 15
	large = 1 << 22
)

// binary and unary work on n elements; they run on one thread.
func binary(op kernels.Op, n int, f func(t *kernels.Table, dst, a, b []float32)) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Mode: "fp32", Unit: GBps, Bound: kernels.PeakRead, Ops: float64(n),
		Bytes: 12 * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, b, dst := numbers(n), numbers(n), make([]float32, n)
			return func(kernels.Parallel) { f(t, dst, a, b) }
		}}
}

func unary(op kernels.Op, n int, f func(t *kernels.Table, dst, a []float32)) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Mode: "fp32", Unit: GBps, Bound: kernels.PeakRead, Ops: float64(n),
		Bytes: 8 * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, dst := numbers(n), make([]float32, n)
			return func(kernels.Parallel) { f(t, dst, a) }
		}}
}

func relu6(t *kernels.Table, dst, a []float32) { t.Limits(dst, a, 0, 6) }

func fakeQuantize(t *kernels.Table, dst, a []float32) {
	t.FakeQuantize(dst, a, qmath.Grid{Scale: 1 / float32(math.MaxInt8), QMin: math.MinInt8, QMax: math.MaxInt8})
}
