package bench

import (
	"fmt"

	"qwb/kernels"
)

func poolKernels() []Kernel {
	return []Kernel{
		pool(kernels.OpMaxWindow, 112, 64, 3, 2),
		pool(kernels.OpSumWindow, 28, 256, 3, 1),
		globalAverage(7, 2048),
	}
}

func pool(op kernels.Op, h, c, k, stride int) Kernel {
	s := square(h, c, c, k, stride, 1)
	return Kernel{Op: op, Shape: fmt.Sprintf("h=%d c=%d k=%d stride=%d", h, c, k, stride), Mode: "fp32", Unit: GBps, Bound: kernels.PeakRead,
		Ops: float64(s.OutLen() * k * k), Bytes: 4 * float64(s.InLen()+s.OutLen()),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst := numbers(s.InLen()), make([]float32, s.OutLen())
			if op == kernels.OpMaxWindow {
				return func(par kernels.Parallel) { t.MaxPool(par, dst, src, s) }
			}
			return func(par kernels.Parallel) { t.AveragePool(par, dst, src, s, false) }
		}}
}

func globalAverage(h, c int) Kernel {
	return Kernel{Op: kernels.OpSumWindow, Shape: fmt.Sprintf("global h=%d c=%d", h, c), Mode: "fp32", Unit: GBps, Bound: kernels.PeakRead,
		Ops: float64(h * h * c), Bytes: 4 * float64(h*h*c+c),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst := numbers(h*h*c), make([]float32, c)
			return func(par kernels.Parallel) { t.GlobalAverage(par, dst, src, 1, h*h, c) }
		}}
}
