package bench

import (
	"fmt"

	"qwb/kernels"
)

// productKernels are matrix products, and layers of ResNet-50 and MobileNet.
func productKernels() []Kernel {
	return []Kernel{
		gemm(512, 512, 512),
		gemm(1024, 1024, 1024),
		gemm(2048, 2048, 2048),
		gemm(128, 3072, 768), // BERT, a sequence of 128
		gemm(128, 768, 3072),
		gemm(1, 1000, 2048), // a classifier
		conv("resnet50", 224, 3, 64, 7, 2),
		conv("resnet50", 56, 64, 64, 1, 1),
		conv("resnet50", 56, 64, 64, 3, 1),
		conv("resnet50", 56, 64, 256, 1, 1),
		conv("resnet50", 28, 128, 128, 3, 1),
		conv("resnet50", 14, 256, 256, 3, 1),
		conv("resnet50", 14, 256, 1024, 1, 1),
		conv("resnet50", 7, 512, 512, 3, 1),
		conv("resnet50", 7, 512, 2048, 1, 1),
		conv("mobilenetv2", 224, 3, 32, 3, 2),
		conv("mobilenetv2", 56, 24, 144, 1, 1),
		conv("mobilenetv2", 14, 96, 576, 1, 1),
		conv("mobilenetv2", 7, 160, 960, 1, 1),
		depthwise(112, 32, 3, 1),
		depthwise(56, 144, 3, 2),
		depthwise(14, 576, 3, 1),
		depthwise(7, 960, 3, 1),
		depthwise(28, 120, 5, 1),
	}
}

func gemm(m, n, k int) Kernel {
	return Kernel{Op: kernels.OpGemm, Shape: fmt.Sprintf("m=%d n=%d k=%d", m, n, k), Mode: "fp32", Unit: GOPS,
		Ops: 2 * float64(m) * float64(n) * float64(k), Bytes: 4 * float64(m*k+k*n+m*n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, dst := numbers(m*k), make([]float32, m*n)
			b := t.PackGemmF32(numbers(k*n), k, n, n, false)
			return func(par kernels.Parallel) { b.Run(par, dst, n, a, k, m, kernels.Epilogue{}) }
		}}
}

// conv is a convolution of an h x h image of c channels with same padding, and a Relu.
func conv(network string, h, c, m, k, stride int) Kernel {
	s := square(h, c, m, k, stride, 1)
	return convolution(kernels.OpGemm, fmt.Sprintf("conv %s h=%d c=%d m=%d k=%d stride=%d", network, h, c, m, k, stride), s)
}

func depthwise(h, c, k, stride int) Kernel {
	s := square(h, c, c, k, stride, c)
	return convolution(kernels.OpDepthwise, fmt.Sprintf("h=%d c=%d k=%d stride=%d", h, c, k, stride), s)
}

func convolution(op kernels.Op, shape string, s kernels.ConvShape) Kernel {
	return Kernel{Op: op, Shape: shape, Mode: "fp32", Unit: GOPS, Ops: 2 * float64(s.OutLen()) * float64(s.C/s.Group*s.KH*s.KW),
		Bytes: 4 * float64(s.InLen()+s.OutLen()+s.WeightLen()),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst, w := numbers(s.InLen()), make([]float32, s.OutLen()), t.PackConvF32(numbers(s.WeightLen()), s)
			var scratch []float32
			return func(par kernels.Parallel) {
				w.Run(par, dst, src, s, &scratch, kernels.Epilogue{Act: kernels.Relu})
			}
		}}
}

func square(h, c, m, k, stride, group int) kernels.ConvShape {
	p := (k - 1) / 2
	out := (h+2*p-k)/stride + 1
	return kernels.ConvShape{N: 1, H: h, W: h, C: c, M: m, KH: k, KW: k, StrideH: stride, StrideW: stride, PadTop: p, PadLeft: p,
		PadBottom: p, PadRight: p, OutH: out, OutW: out, Group: group}.Full()
}
