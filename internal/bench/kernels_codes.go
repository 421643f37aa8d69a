package bench

import (
	"fmt"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// codesKernels are operations on codes without products: what stands between the layers of an integer program, and at its borders.
func codesKernels() []Kernel {
	var list []Kernel
	for _, n := range []int{small, large} {
		list = append(list, addCodes(kernels.OpAddCodes, n, false), addCodes(kernels.OpAddFused, n, true),
			toCodes(kernels.OpToCodes, n, false), toCodes(kernels.OpToCodesAway, n, true), fromCodes(n), maxCodes(n))
	}
	return list
}

// everyCode is the whole range of a code whose zero point is 128.
var everyCode = ref.Requantized{Lo: -128, Hi: 127, Zero: 128}

// onCodes moves bytes bytes for each of n elements.
func onCodes(op kernels.Op, n, bytes int, prepare func(t *kernels.Table) func()) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Mode: "int8", Unit: GBps, Bound: kernels.PeakRead, Ops: float64(n),
		Bytes: float64(bytes * n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			f := prepare(t)
			return func(kernels.Parallel) { f() }
		}}
}

func addCodes(op kernels.Op, n int, fused bool) Kernel {
	return onCodes(op, n, 3, func(t *kernels.Table) func() {
		dst, a, b := make([]uint8, n), codes[uint8](n), codes[uint8](n)
		s := &ref.AddCodes{Fused: fused, ZA: 128, ZB: 120, FA: .6, FB: .5, Factor: 1, Divisor: 1, Requantized: everyCode}
		return func() { t.AddCodes(dst, a, b, s) }
	})
}

func toCodes(op kernels.Op, n int, away bool) Kernel {
	return onCodes(op, n, 5, func(t *kernels.Table) func() {
		dst, x := make([]uint8, n), numbers(n)
		s := &ref.ToCodes{Factor: 1, Divisor: 1. / 128, Away: away, Requantized: everyCode}
		return func() { t.ToCodes(dst, x, s) }
	})
}

func fromCodes(n int) Kernel {
	return onCodes(kernels.OpFromCodes, n, 5, func(t *kernels.Table) func() {
		dst, a := make([]float32, n), codes[uint8](n)
		return func() { t.FromCodes(dst, a, 128, 1./128) }
	})
}

func maxCodes(n int) Kernel {
	return onCodes(kernels.OpMaxCodes, n, 3, func(t *kernels.Table) func() {
		dst, a := codes[uint8](n), codes[uint8](n)
		return func() { t.MaxCodes(dst, n, a, n, 1, n) }
	})
}
