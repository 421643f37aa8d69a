package bench

import (
	"fmt"
	"math/rand/v2"

	"qwb/kernels"
)

// integerKernels are the products of productKernels on codes, and what turns their sums into codes.
func integerKernels() []Kernel {
	return []Kernel{
		gemm8(512, 512, 512),
		gemm8(1024, 1024, 1024),
		gemm8(2048, 2048, 2048),
		gemm8(128, 3072, 768), // BERT, a sequence of 128
		gemm8(128, 768, 3072),
		gemm8(1, 1000, 2048), // a classifier
		conv8("resnet50", 224, 3, 64, 7, 2),
		conv8("resnet50", 56, 64, 64, 1, 1),
		conv8("resnet50", 56, 64, 64, 3, 1),
		conv8("resnet50", 56, 64, 256, 1, 1),
		conv8("resnet50", 28, 128, 128, 3, 1),
		conv8("resnet50", 14, 256, 256, 3, 1),
		conv8("resnet50", 14, 256, 1024, 1, 1),
		conv8("resnet50", 7, 512, 512, 3, 1),
		conv8("resnet50", 7, 512, 2048, 1, 1),
		conv8("mobilenetv2", 224, 3, 32, 3, 2),
		conv8("mobilenetv2", 56, 24, 144, 1, 1),
		conv8("mobilenetv2", 14, 96, 576, 1, 1),
		conv8("mobilenetv2", 7, 160, 960, 1, 1),
		depthwise8(112, 32, 3, 1),
		depthwise8(56, 144, 3, 2),
		depthwise8(14, 576, 3, 1),
		depthwise8(7, 960, 3, 1),
		depthwise8(28, 120, 5, 1),
		storing(kernels.OpScaleU8, func(m, n int) kernels.Output { return scaled(m, n) }),
		storing(kernels.OpScaleF32, func(m, n int) kernels.Output {
			return &kernels.StoreF32{Dst: make([]float32, m*n), Ldd: n, Scale: scaled(m, n).Scale}
		}),
		storing(kernels.OpShiftU8, shifted),
	}
}

// codes makes n codes, each of any value.
func codes[T int8 | uint8](n int) []T {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.Uint32())
	}
	return x
}

// gemm8 stores the sums as they are.
func gemm8(m, n, k int) Kernel {
	return Kernel{Op: kernels.OpGemmU8S8, Shape: fmt.Sprintf("m=%d n=%d k=%d", m, n, k), Mode: "int8", Unit: GOPS, Bound: kernels.PeakInteger,
		Ops: 2 * float64(m) * float64(n) * float64(k), Bytes: float64(m*k + k*n + 4*m*n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, b := codes[uint8](m*k), t.PackGemmU8S8(codes[int8](k*n), k, n, n, false)
			out := &kernels.StoreS32{Dst: make([]int32, m*n), Ldd: n}
			return func(par kernels.Parallel) { b.Run(par, a, k, m, kernels.Terms{}, out) }
		}}
}

func conv8(network string, h, c, m, k, stride int) Kernel {
	s := square(h, c, m, k, stride, 1)
	return convolution8(kernels.OpGemmU8S8, fmt.Sprintf("conv %s h=%d c=%d m=%d k=%d stride=%d", network, h, c, m, k, stride), s)
}

func depthwise8(h, c, k, stride int) Kernel {
	s := square(h, c, c, k, stride, c)
	return convolution8(kernels.OpDepthwiseU8S8, fmt.Sprintf("h=%d c=%d k=%d stride=%d", h, c, k, stride), s)
}

// convolution8 gives codes, as layers do.
func convolution8(op kernels.Op, shape string, s kernels.ConvShape) Kernel {
	return Kernel{Op: op, Shape: shape, Mode: "int8", Unit: GOPS, Bound: kernels.PeakInteger,
		Ops: 2 * float64(s.OutLen()) * float64(s.C/s.Group*s.KH*s.KW), Bytes: float64(s.InLen() + s.OutLen() + s.WeightLen()),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, w := codes[uint8](s.InLen()), t.PackConvU8S8(codes[int8](s.WeightLen()), s)
			terms, out := kernels.Terms{Column: make([]int32, s.M)}, scaled(s.OutLen()/s.M, s.M)
			var scratch []uint8
			return func(par kernels.Parallel) { w.Run(par, src, s, 128, &scratch, terms, out) }
		}}
}

// storing is a product with sums so short that storing them takes longer than adding them up.
func storing(op kernels.Op, out func(m, n int) kernels.Output) Kernel {
	const m, n, k = 3136, 256, 4
	return Kernel{Op: op, Shape: fmt.Sprintf("m=%d n=%d k=%d", m, n, k), Mode: "int8", Unit: GElems, Bound: kernels.PeakRead, Ops: m * n,
		Bytes: 5 * m * n,
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, b, to := codes[uint8](m*k), t.PackGemmU8S8(codes[int8](k*n), k, n, n, false), out(m, n)
			return func(par kernels.Parallel) { b.Run(par, a, k, m, kernels.Terms{}, to) }
		}}
}

func scaled(m, n int) *kernels.StoreScaled {
	out := &kernels.StoreScaled{Dst: make([]uint8, m*n), Ldd: n, Scale: kernels.Scale{Factor: make([]float32, n), Zero: 128}}
	for j := range out.Factor {
		out.Factor[j] = 1e-3
	}
	return out
}

func shifted(m, n int) kernels.Output {
	out := &kernels.StoreShifted{Dst: make([]uint8, m*n), Ldd: n, Shift: kernels.Shift{Mul: make([]int32, n), Exp: make([]int8, n), Zero: 128}}
	for j := range out.Mul {
		out.Mul[j], out.Exp[j] = 1<<30+int32(j), -9
	}
	return out
}
