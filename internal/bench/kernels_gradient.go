package bench

import (
	"fmt"

	"qwb/kernels"
)

// gradientKernels are what gradients run on the rows of products and depthwise convolutions (package grad): what is a weight there changes
// from run to run, so packing is part of it.
func gradientKernels() []Kernel {
	return []Kernel{
		gradient("input-gradient m=3136 n=512 k=512", 3136, 512, 512),
		gradient("weight-gradient m=512 n=512 k=3136", 512, 512, 3136),
		inputGradient(kernels.OpGemm, 14, 128, 128, 3, 1, 16),
		inputGradient(kernels.OpDepthwise, 14, 512, 512, 3, 1, 16),
		inputGradient(kernels.OpDepthwise, 28, 256, 256, 3, 2, 16),
		weightGradient(14, 512, 3, 1, 16),
		weightGradient(28, 256, 3, 2, 16),
	}
}

// gradient is a product whose right side is packed in each run: of a layer's input by what arrives and the weights transposed, of its
// weights by the samples as the axis that is summed over.
func gradient(shape string, m, n, k int) Kernel {
	return Kernel{Op: kernels.OpGemm, Shape: shape, Mode: "fp32", Unit: GOPS, Ops: 2 * float64(m) * float64(n) * float64(k),
		Bytes: 4 * float64(m*k+k*n+m*n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, b, dst := numbers(m*k), numbers(k*n), make([]float32, m*n)
			return func(par kernels.Parallel) {
				t.PackGemmF32(b, k, n, k, true).Run(par, dst, n, a, k, m, kernels.Epilogue{})
			}
		}}
}

// inputGradient is the transposed convolution that brings what arrives at a convolution of n images back to its input.
func inputGradient(op kernels.Op, h, c, m, k, stride, n int) Kernel {
	s := square(h, m, c, k, stride, 1)
	if op == kernels.OpDepthwise {
		s.Group = c
	}
	s.N, s.H, s.W, s.OutH, s.OutW = n, s.OutH, s.OutW, s.H, s.W
	taps := s.C / s.Group * s.KH * s.KW
	return Kernel{Op: op, Shape: fmt.Sprintf("input-gradient h=%d c=%d m=%d k=%d stride=%d n=%d", h, c, m, k, stride, n),
		Mode: "fp32", Unit: GOPS,
		Ops:   2 * float64(s.N*s.H*s.W*s.M) * float64(taps),
		Bytes: 4 * float64(s.InLen()+s.OutLen()+s.M*taps),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst, w := numbers(s.InLen()), make([]float32, s.OutLen()), numbers(s.M*taps)
			var scratch []float32
			return func(par kernels.Parallel) {
				t.PackConvTransposeF32(w, s).Run(par, dst, src, s, &scratch, kernels.Epilogue{})
			}
		}}
}

// weightGradient is that of a depthwise convolution: the convolution of its input, each channel of n images apart, by what arrives.
func weightGradient(h, c, k, stride, n int) Kernel {
	f := square(h, c, c, k, stride, c)
	s := f
	s.C, s.M, s.Group = n*c, n*c, n*c
	s.KH, s.KW, s.OutH, s.OutW = f.OutH, f.OutW, k, k
	s.StrideH, s.StrideW, s.DilH, s.DilW = 1, 1, stride, stride
	return Kernel{Op: kernels.OpDepthwise, Shape: fmt.Sprintf("weight-gradient h=%d c=%d k=%d stride=%d n=%d", h, c, k, stride, n),
		Mode: "fp32", Unit: GOPS, Ops: 2 * float64(n*c) * float64(f.OutH*f.OutW*k*k), Bytes: 4 * float64(s.InLen()+s.OutLen()+s.WeightLen()),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst, w := numbers(s.InLen()), make([]float32, s.OutLen()), numbers(s.WeightLen())
			var scratch []float32
			return func(par kernels.Parallel) { t.PackConvF32(w, s).Run(par, dst, src, s, &scratch, kernels.Epilogue{}) }
		}}
}
