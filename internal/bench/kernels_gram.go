package bench

import (
	"fmt"

	"qwb/kernels"
)

// gramKernels are sums of products of columns: a block of panels that fit into the first-level cache, with the codes of 8 bits and with
// those of the fixed point for floats, and many rows.
func gramKernels() []Kernel {
	return []Kernel{gram(128, 255), gram(128, 4095), gram(2048, 4095)}
}

func gram(rows, limit int) Kernel {
	const n = kernels.GramLanes
	return Kernel{Op: kernels.OpGram, Shape: fmt.Sprintf("rows=%d limit=%d", rows, limit), Mode: "int8", Unit: GOPS, Bound: kernels.PeakPairs,
		Ops: 2 * n * n * float64(rows), Bytes: float64(2*2*n*rows + 16*n*n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			x, dst := make([]int16, n*rows), make([]int64, n*n)
			for i, c := range codes[int8](len(x)) {
				x[i] = int16(int(c) * limit / 128)
			}
			return func(kernels.Parallel) { t.Gram(dst, x, x, limit*limit) }
		}}
}
