package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// unaryEvals are the operators that map one float32 (some: one number) to another. They keep the layout of their input.
// Formulas are those of the ONNX operator documentation. Transcendental functions are kernels with the errors stated in
// package ref, or computed in float64 and rounded once.
var unaryEvals = []evaluator{
	{"Relu", limits(0, math.Inf(1))},
	{"LeakyRelu", withAlpha(0.01, leaky[float32], leaky[float64])},
	{"Elu", withAlpha(1, elu[float32], elu[float64])},
	{"Celu", withAlpha(1, celu[float32], celu[float64])},
	{"ThresholdedRelu", withAlpha(1, above[float32], above[float64])},
	{"Selu", buildSelu},
	{"HardSigmoid", buildHardSigmoid},
	{"HardSwish", mapped(func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) })},
	{"Shrink", buildShrink},
	{"Gelu", buildGelu},
	{"Swish", buildSwish},
	{"Sigmoid", mapped(ref.Sigmoid64)},
	{"Tanh", mapped(elementary.Tanh)},
	{"Mish", unary64(func(x float64) float64 { return x * elementary.Tanh(softplus(x)) })},
	{"Softplus", unary64(softplus)},
	{"Softsign", unary(func(x float32) float32 { return x / (1 + abs32(x)) }, func(x float64) float64 { return x / (1 + math.Abs(x)) })},
	{"Erf", mapped(elementary.Erf)},
	{"Exp", mapped(elementary.Exp)},
	{"Log", unary64(math.Log)},
	{"Sqrt", mapped(math.Sqrt)},
	{"Reciprocal", mapped(func(x float64) float64 { return 1 / x })},
	{"Floor", unary64(math.Floor)},
	{"Ceil", unary64(math.Ceil)},
	{"Round", mapped(math.RoundToEven)},
	{"Sin", unary64(math.Sin)}, {"Cos", unary64(math.Cos)}, {"Tan", unary64(math.Tan)},
	{"Asin", unary64(math.Asin)}, {"Acos", unary64(math.Acos)}, {"Atan", unary64(math.Atan)},
	{"Sinh", unary64(elementary.Sinh)}, {"Cosh", unary64(elementary.Cosh)},
	{"Asinh", unary64(math.Asinh)}, {"Acosh", unary64(math.Acosh)}, {"Atanh", unary64(math.Atanh)},
	{"Abs", simple(evalAbs)},
	{"Neg", simple(evalNeg)},
	{"Sign", simple(evalSign)},
	{"Not", simple(evalNot)},
	{"BitwiseNot", simple(evalBitwiseNot)},
	{"IsNaN", simple(evalIsNaN)},
	{"IsInf", buildIsInf},
}

// unary makes a build function of a function of float32 and of float64.
func unary(f func(x float32) float32, wide func(x float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error { return mapFloats(c, 8, f, wide) })
}

// mapFloats applies the function of its type to every element of input 0; cost is how many simple operations it is worth.
func mapFloats(c *call, cost int, f func(x float32) float32, wide func(x float64) float64) error {
	if c.raw(0).DType == tensor.Float32 {
		return mapF32(c, cost, f)
	}
	return mapF64(c, wide)
}

// mapped builds the operators of kernelOf. Float64 tensors are computed by f.
func mapped(f func(float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		kernel := kernelOf(n)
		return func(c *call) error { return mapKernel(c, kernel, f) }, nil
	}
}

func mapKernel(c *call, kernel kernelMap, f func(float64) float64) error {
	x := c.raw(0)
	if x.DType != tensor.Float32 {
		return mapF64(c, f)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	src, dst := x.F32(), out.F32()
	c.parallel(len(src), 4, func(lo, hi int) { kernel(c.run.s.table, dst[lo:hi], src[lo:hi]) })
	return nil
}

// kernelMap is a function of one number as a kernel; dst may be a.
type kernelMap func(t *kernels.Table, dst, a []float32)

// mapF64 applies f to every element of input 0, a float64 tensor.
func mapF64(c *call, f func(float64) float64) error {
	x := c.raw(0)
	src, ok := x.Data.([]float64)
	if !ok {
		return badType(0, x.DType)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	dst := out.Data.([]float64)
	for i, v := range src {
		dst[i] = f(v)
	}
	return nil
}

// unary64 makes a build function of a float64 function whose result is rounded to float32. float64 tensors are computed too.
func unary64(f func(x float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error {
		return mapFloats(c, 16, func(x float32) float32 { return float32(f(float64(x))) }, f)
	})
}

func withAlpha(def float32, f func(x, alpha float32) float32, wide func(x, alpha float64) float64) func(*graph.Node,
	int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		alpha := n.AttrFloat("alpha", def)
		return func(c *call) error {
			return mapFloats(c, 4, func(x float32) float32 { return f(x, alpha) }, func(x float64) float64 { return wide(x, float64(alpha)) })
		}, nil
	}
}

// mapF32 applies f to every element of input 0; cost is how many simple operations f is worth.
func mapF32(c *call, cost int, f func(x float32) float32) error {
	x := c.raw(0)
	if x.DType != tensor.Float32 {
		return badType(0, x.DType)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	src, dst := x.F32(), out.F32()
	c.parallel(len(src), cost, func(lo, hi int) {
		d := dst[lo:hi]
		for i, v := range src[lo:hi] {
			d[i] = f(v)
		}
	})
	return nil
}

// limits is Relu and its kin: x below lo becomes lo, above hi becomes hi. NaN passes.
func limits(lo, hi float64) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error {
		if c.raw(0).DType == tensor.Float32 {
			return limitF32(c, float32(lo), float32(hi))
		}
		return mapNumbers(c, reluOp)
	})
}

func limitF32(c *call, lo, hi float32) error {
	x := c.raw(0)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	src, dst := x.F32(), out.F32()
	c.parallel(len(src), 1, func(a, b int) { c.run.s.table.Limits(dst[a:b], src[a:b], lo, hi) })
	return nil
}

func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(elementary.Exp(-x))
	}
	return math.Log1p(elementary.Exp(x))
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func leaky[T float](x, a T) T {
	if x < 0 {
		return a * x
	}
	return x
}

func elu[T float](x, a T) T {
	if x < 0 {
		return T(float64(a) * math.Expm1(float64(x)))
	}
	return x
}

func celu[T float](x, a T) T {
	if x < 0 {
		return T(float64(a) * math.Expm1(float64(x)/float64(a)))
	}
	return x
}

// above is x above a, else 0.
func above[T float](x, a T) T {
	if x > a {
		return x
	}
	return 0
}

func buildSelu(n *graph.Node, v int64) (evalFunc, error) {
	a, g := float32(1.67326319217681884765625), float32(1.05070102214813232421875)
	if v < 6 {
		a, g = 1.6732, 1.0507
	}
	alpha, gamma := float64(n.AttrFloat("alpha", a)), float64(n.AttrFloat("gamma", g))
	return unary64(func(x float64) float64 {
		if x > 0 {
			return gamma * x
		}
		return gamma * alpha * math.Expm1(x)
	})(n, v)
}

func buildHardSigmoid(n *graph.Node, v int64) (evalFunc, error) {
	alpha, beta := float64(n.Alpha()), float64(n.Beta())
	return mapped(func(x float64) float64 { return max(0, min(1, alpha*x+beta)) })(n, v)
}

// buildShrink moves numbers of every type beyond lambd by bias toward 0 and makes the others 0; integers are truncated.
func buildShrink(n *graph.Node, _ int64) (evalFunc, error) {
	s := shrink{n.AttrFloat("bias", 0), n.AttrFloat("lambd", 0.5)}
	return func(c *call) error {
		x := c.raw(0)
		if x.DType == tensor.Float32 {
			return mapF32(c, 2, func(x float32) float32 { return shrinkTo(x, s.bias, s.lambd) })
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		switch d := out.Data.(type) {
		case []float64:
			shrinkAll(d, x, s)
		case []int8:
			shrinkAll(d, x, s)
		case []int16:
			shrinkAll(d, x, s)
		case []int32:
			shrinkAll(d, x, s)
		case []int64:
			shrinkAll(d, x, s)
		case []uint8:
			shrinkAll(d, x, s)
		case []uint16:
			shrinkAll(d, x, s)
		case []uint32:
			shrinkAll(d, x, s)
		case []uint64:
			shrinkAll(d, x, s)
		default:
			return badType(0, x.DType)
		}
		return nil
	}, nil
}

type shrink struct{ bias, lambd float32 }

func shrinkAll[T number](dst []T, x *tensor.Tensor, s shrink) {
	for i, v := range tensor.Of[T](x) {
		dst[i] = T(shrinkTo(float64(v), float64(s.bias), float64(s.lambd)))
	}
}

func shrinkTo[T float](x, bias, lambd T) T {
	switch {
	case x < -lambd:
		return x + bias
	case x > lambd:
		return x - bias
	}
	return 0
}

func buildGelu(n *graph.Node, _ int64) (evalFunc, error) {
	if n.TanhGelu() {
		return mapped(ref.GeluTanh64)(n, 0)
	}
	return mapped(ref.Gelu64)(n, 0)
}

func buildSwish(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := float64(n.Alpha())
	return mapped(func(x float64) float64 { return x * ref.Sigmoid64(alpha*x) })(n, 0)
}
