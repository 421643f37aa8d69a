package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"qwb/kernels"
	"qwb/kernels/qmath"
)

// Kernel is one operation on one shape, to be timed on every row of the operation.
type Kernel struct {
	Op    kernels.Op
	Shape string
	Unit  Unit
	Ops   float64 // operations of one run, a multiply-add being two; elements for those that multiply nothing
	Bytes float64 // read and written at least
	// Prepare makes what runs the operation with the rows of t.
	Prepare func(t *kernels.Table) func(par kernels.Parallel)
}

// Unit is what the speed of a kernel is told in. It also says what bounds it: arithmetic, or reading memory.
type Unit string

const (
	GOPS   Unit = "GOPS"
	GBps   Unit = "GB/s"
	GElems Unit = "Gelem/s"
)

// Name is the operation and its shape.
func (k Kernel) Name() string { return k.Op.String() + " " + k.Shape }

// Speed is the kernel's speed in its unit when one run takes that many seconds.
func (k Kernel) Speed(seconds float64) float64 {
	if k.Unit == GBps {
		return k.Bytes / seconds / 1e9
	}
	return k.Ops / seconds / 1e9
}

// slowOps is the work beyond which rows of plain Go are left out: they take a hundred times as long.
const slowOps = 1e9

// Takes reports whether a row is timed on k.
func (k Kernel) Takes(r kernels.Row) bool { return r.Op == k.Op && (r.ISA != "go" || k.Ops <= slowOps) }

// Kernels lists the cases: matrix products, layers of ResNet-50 and MobileNet, pools, and elementwise operations on a tensor
// that the second-level cache holds and on one that it does not.
func Kernels() []Kernel {
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
		pool(kernels.OpMaxWindow, 112, 64, 3, 2),
		pool(kernels.OpSumWindow, 28, 256, 3, 1),
		globalAverage(7, 2048),
		binary(kernels.OpAdd, 1<<15, (*kernels.Table).Add),
		binary(kernels.OpAdd, 1<<20, (*kernels.Table).Add),
		binary(kernels.OpSub, 1<<15, (*kernels.Table).Sub),
		binary(kernels.OpMul, 1<<15, (*kernels.Table).Mul),
		binary(kernels.OpDiv, 1<<15, (*kernels.Table).Div),
		unary(kernels.OpLimit, 1<<15, relu6),
		unary(kernels.OpLimit, 1<<20, relu6),
		unary(kernels.OpFake, 1<<15, fakeQuantize),
		unary(kernels.OpFake, 1<<20, fakeQuantize),
	}
}

// numbers makes n values between -1 and 1.
func numbers(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = 2*r.Float32() - 1
	}
	return x
}

func gemm(m, n, k int) Kernel {
	return Kernel{Op: kernels.OpGemm, Shape: fmt.Sprintf("m=%d n=%d k=%d", m, n, k), Unit: GOPS,
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
	return Kernel{Op: op, Shape: shape, Unit: GOPS, Ops: 2 * float64(s.OutLen()) * float64(s.C/s.Group*s.KH*s.KW),
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

func pool(op kernels.Op, h, c, k, stride int) Kernel {
	s := square(h, c, c, k, stride, 1)
	return Kernel{Op: op, Shape: fmt.Sprintf("h=%d c=%d k=%d stride=%d", h, c, k, stride), Unit: GBps, Ops: float64(s.OutLen() * k * k),
		Bytes: 4 * float64(s.InLen()+s.OutLen()),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst := numbers(s.InLen()), make([]float32, s.OutLen())
			if op == kernels.OpMaxWindow {
				return func(par kernels.Parallel) { t.MaxPool(par, dst, src, s) }
			}
			return func(par kernels.Parallel) { t.AveragePool(par, dst, src, s, false) }
		}}
}

func globalAverage(h, c int) Kernel {
	return Kernel{Op: kernels.OpSumWindow, Shape: fmt.Sprintf("global h=%d c=%d", h, c), Unit: GBps, Ops: float64(h * h * c), Bytes: 4 * float64(h*h*c+c),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			src, dst := numbers(h*h*c), make([]float32, c)
			return func(par kernels.Parallel) { t.GlobalAverage(par, dst, src, 1, h*h, c) }
		}}
}

// binary and unary work on n elements; they run on one thread.
func binary(op kernels.Op, n int, f func(t *kernels.Table, dst, a, b []float32)) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Unit: GBps, Ops: float64(n), Bytes: 12 * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, b, dst := numbers(n), numbers(n), make([]float32, n)
			return func(kernels.Parallel) { f(t, dst, a, b) }
		}}
}

func unary(op kernels.Op, n int, f func(t *kernels.Table, dst, a []float32)) Kernel {
	return Kernel{Op: op, Shape: fmt.Sprintf("n=%d", n), Unit: GBps, Ops: float64(n), Bytes: 8 * float64(n),
		Prepare: func(t *kernels.Table) func(kernels.Parallel) {
			a, dst := numbers(n), make([]float32, n)
			return func(kernels.Parallel) { f(t, dst, a) }
		}}
}

func relu6(t *kernels.Table, dst, a []float32) { t.Limits(dst, a, 0, 6) }

func fakeQuantize(t *kernels.Table, dst, a []float32) {
	t.FakeQuantize(dst, a, qmath.Grid{Scale: 1 / float32(math.MaxInt8), QMin: math.MinInt8, QMax: math.MaxInt8})
}
