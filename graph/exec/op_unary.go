package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// unaryEvals are the operators that map one float32 (some: one number) to another. They keep the layout of their input.
// Formulas are those of the ONNX operator documentation. Transcendental functions are kernels with the errors stated in
// package ref, or computed in float64 and rounded once.
var unaryEvals = []evaluator{
	{"Relu", limits(0, math.Inf(1))},
	{"LeakyRelu", withAlpha(0.01, func(x, a float32) float32 {
		if x < 0 {
			return a * x
		}
		return x
	})},
	{"Elu", withAlpha(1, func(x, a float32) float32 {
		if x < 0 {
			return float32(float64(a) * math.Expm1(float64(x)))
		}
		return x
	})},
	{"Celu", withAlpha(1, func(x, a float32) float32 {
		if x < 0 {
			return float32(float64(a) * math.Expm1(float64(x)/float64(a)))
		}
		return x
	})},
	{"ThresholdedRelu", withAlpha(1, func(x, a float32) float32 {
		if x > a {
			return x
		}
		return 0
	})},
	{"Selu", buildSelu},
	{"HardSigmoid", mapped(nil)},
	{"HardSwish", mapped(nil)},
	{"Shrink", buildShrink},
	{"Gelu", buildGelu},
	{"Swish", buildSwish},
	{"Sigmoid", mapped(ref.Sigmoid64)},
	{"Tanh", mapped(math.Tanh)},
	{"Mish", unary64(func(x float64) float64 { return x * math.Tanh(softplus(x)) })},
	{"Softplus", unary64(softplus)},
	{"Softsign", unary(func(x float32) float32 { return x / (1 + abs32(x)) })},
	{"Erf", mapped(math.Erf)},
	{"Exp", mapped(math.Exp)},
	{"Log", unary64(math.Log)},
	{"Sqrt", mapped(math.Sqrt)},
	{"Reciprocal", mapped(nil)},
	{"Floor", unary64(math.Floor)},
	{"Ceil", unary64(math.Ceil)},
	{"Round", unary64(math.RoundToEven)},
	{"Sin", unary64(math.Sin)}, {"Cos", unary64(math.Cos)}, {"Tan", unary64(math.Tan)},
	{"Asin", unary64(math.Asin)}, {"Acos", unary64(math.Acos)}, {"Atan", unary64(math.Atan)},
	{"Sinh", unary64(math.Sinh)}, {"Cosh", unary64(math.Cosh)},
	{"Asinh", unary64(math.Asinh)}, {"Acosh", unary64(math.Acosh)}, {"Atanh", unary64(math.Atanh)},
	{"Abs", simple(evalAbs)},
	{"Neg", simple(evalNeg)},
	{"Sign", simple(evalSign)},
	{"Not", simple(evalNot)},
	{"BitwiseNot", simple(evalBitwiseNot)},
	{"IsNaN", simple(evalIsNaN)},
	{"IsInf", buildIsInf},
}

// unary makes a build function of a float32 function.
func unary(f func(x float32) float32) func(*graph.Node, int64) (evalFunc, error) {
	return simple(func(c *call) error { return mapF32(c, 8, f) })
}

// mapped builds the operators of kernelOf. Float64 tensors are computed by f, if there is one.
func mapped(f func(float64) float64) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		kernel := kernelOf(n)
		return func(c *call) error { return mapKernel(c, kernel, f) }, nil
	}
}

func mapKernel(c *call, kernel kernelMap, f func(float64) float64) error {
	x := c.raw(0)
	if x.DType != tensor.Float32 && f != nil {
		return mapF64(c, f)
	}
	if x.DType != tensor.Float32 {
		return badType(0, x.DType)
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
		if c.raw(0).DType == tensor.Float32 {
			return mapF32(c, 16, func(x float32) float32 { return float32(f(float64(x))) })
		}
		return mapF64(c, f)
	})
}

func withAlpha(def float32, f func(x, alpha float32) float32) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		alpha := n.AttrFloat("alpha", def)
		return func(c *call) error { return mapF32(c, 4, func(x float32) float32 { return f(x, alpha) }) }, nil
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
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func buildSelu(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := float64(n.AttrFloat("alpha", 1.67326319217681884765625))
	gamma := float64(n.AttrFloat("gamma", 1.05070102214813232421875))
	return func(c *call) error {
		return mapF32(c, 8, func(x float32) float32 {
			if x > 0 {
				return float32(gamma * float64(x))
			}
			return float32(gamma * alpha * math.Expm1(float64(x)))
		})
	}, nil
}

func buildShrink(n *graph.Node, _ int64) (evalFunc, error) {
	bias, lambd := n.AttrFloat("bias", 0), n.AttrFloat("lambd", 0.5)
	return func(c *call) error {
		return mapF32(c, 2, func(x float32) float32 {
			switch {
			case x < -lambd:
				return x + bias
			case x > lambd:
				return x - bias
			}
			return 0
		})
	}, nil
}

func buildGelu(n *graph.Node, _ int64) (evalFunc, error) {
	if n.AttrStr("approximate", "none") == "tanh" {
		return mapped(ref.GeluTanh64)(n, 0)
	}
	return mapped(ref.Gelu64)(n, 0)
}

func buildSwish(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := float64(n.AttrFloat("alpha", 1))
	return mapped(func(x float64) float64 { return x * ref.Sigmoid64(alpha*x) })(n, 0)
}
