package tflite

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
)

// floatOp writes one float operator.
type floatOp func(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error

// floats are the operators that float islands may have besides those that move elements.
var floats = map[string]floatOp{
	"Add": two2("ADD", true), "Sub": two2("SUB", true), "Mul": two2("MUL", true), "Div": two2("DIV", true), "Max": two2("MAXIMUM", false),
	"Min": two2("MINIMUM", false),
	"Pow": power, "PRelu": two2("PRELU", false), "Where": choose,
	"Abs": one("ABS"), "Exp": one("EXP"), "Floor": one("FLOOR"), "HardSwish": one("HARD_SWISH"), "Log": one("LOG"), "Neg": one("NEG"),
	"Relu":    one("RELU"),
	"Sigmoid": one("LOGISTIC"), "Sqrt": one("SQRT"), "Tanh": one("TANH"), "Elu": elu,
	"Gelu": func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		return b.each("GELU", in, y, "approximate", n.TanhGelu())
	},
	"LeakyRelu": func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		return b.each("LEAKY_RELU", in, y, "alpha", n.Alpha())
	},
	"Clip": clip, "HardSigmoid": hardSigmoid, "Swish": swish, "Reciprocal": reciprocal, "BatchNormalization": normalization,
	"LayerNormalization": layerNorm,
	"Conv":               product, "ConvTranspose": product, "Gemm": product, "MatMul": product,
	"MaxPool": func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		return b.maxPool(n, in[0], y, new(int32))
	},
	"GlobalMaxPool": func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		return b.maxPool(n, in[0], y, nil)
	},
	"AveragePool": func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		return b.averagePool(n, in[0], y, 0, 0, tf.NoActivation)
	},
	"ReduceMean": reduction("MEAN"), "ReduceSum": reduction("SUM"), "GlobalAveragePool": globalMean, "Softmax": softmaxReals,
	"LogSoftmax": softmaxReals, "Concat": concatReals,

	"Equal": compare("EQUAL"), "Greater": compare("GREATER"), "GreaterOrEqual": compare("GREATER_EQUAL"), "Less": compare("LESS"),
	"LessOrEqual": compare("LESS_EQUAL"), "And": compare("LOGICAL_AND"), "Or": compare("LOGICAL_OR"), "Not": one("LOGICAL_NOT"),
	"IsNaN": func(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error { // a NaN alone differs from itself
		same := b.between2(y, "same", y.shape)
		same.typ = tf.Bool
		if err := b.each("EQUAL", []*value{in[0], in[0]}, same); err != nil {
			return err
		}
		return b.each("LOGICAL_NOT", []*value{same}, y)
	},
	"Cast": cast, "Ceil": one("CEIL"), "Round": one("ROUND"), "Sin": one("SIN"), "Cos": one("COS"), "Sign": one("SIGN"),
	"ArgMax": argument("ARG_MAX"), "ArgMin": argument("ARG_MIN"), "CumSum": cumulative, "Shape": shapeOf,
	"Sum": two2("ADD", true), "Mean": mean, "ThresholdedRelu": threshold, "LpNormalization": lpNorm, "InstanceNormalization": instanceNorm,
	"ReduceProd": reduction("REDUCE_PROD"), "ReduceL1": reducedBy("ABS", ""), "ReduceL2": reducedBy("SQUARE", "SQRT"),
	"ReduceSumSquare": reducedBy("SQUARE", ""), "ReduceLogSum": reducedBy("", "LOG"), "ReduceLogSumExp": logSumExp,
	"Softplus": softplus, "Mish": mish, "Softsign": softsign, "Celu": celu, "Selu": selu,
}

// compare is an operator of two inputs that has no activation.
func compare(name string) floatOp { return two2(name, false) }

func one(name string) floatOp {
	return func(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
		return b.each(name, in[:1], y)
	}
}

// each writes an elementwise operator of inputs that are broadcast.
func (b *builder) each(name string, in []*value, y *value, options ...any) error {
	perm := order(len(y.shape), in)
	var ids []int
	for _, x := range in {
		ids = append(ids, b.operand(x, perm))
	}
	b.op(name, ids, []int{b.make(y, perm)}, options...)
	return nil
}

// two2 is an operator of two inputs; more are taken one after the other.
func two2(name string, fuses bool) floatOp {
	return func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		var options []any
		if fuses {
			options = []any{"fused_activation_function", tf.NoActivation}
		}
		acc := in[0]
		if len(in) == 1 {
			return b.same(nil, n, acc, []*value{y})
		}
		for k, x := range in[1:] {
			to := y
			if k+2 < len(in) {
				shape, err := tensor.Broadcast(acc.shape, x.shape)
				if err != nil {
					return err
				}
				to = b.between2(y, fmt.Sprintf("%d", k), shape)
			}
			if err := b.each(name, []*value{acc, x}, to, options...); err != nil {
				return err
			}
			acc = to
		}
		return nil
	}
}

// between2 is a float value on the way to y.
func (b *builder) between2(y *value, suffix string, shape []int) *value {
	return &value{name: y.name + "/" + suffix, typ: tf.Float32, shape: shape, at: map[string]int{}}
}

// scalar is a constant number that is broadcast.
func (b *builder) scalar(name string, x float32) *value {
	return b.reals(name, tensor.FromF32([]float32{x}, 1))
}

func power(b *builder, g *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	if c := in[1].konst; c != nil && c.Len() == 1 && c.DType == tensor.Float32 {
		switch c.F32()[0] {
		case 2:
			return b.each("SQUARE", in[:1], y)
		case 0.5:
			return b.each("SQRT", in[:1], y)
		}
	}
	return b.each("POW", in, y)
}

func elu(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	if n.Alpha() != 1 {
		return b.formula(y).exponential(in[0], n.Alpha(), 1, 1)
	}
	return b.each("ELU", in, y)
}

func choose(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	return b.each("SELECT_V2", in, y)
}

func clip(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	lo, hi, ok := graph.LimitsOf(n, g.Opset(""), g.Const)
	if !ok {
		return fmt.Errorf("its limits are not constant")
	}
	switch like(lo, hi) {
	case tf.Relu:
		return b.each("RELU", in[:1], y)
	case tf.Relu6:
		return b.each("RELU6", in[:1], y)
	}
	x := in[0]
	if !math.IsInf(float64(lo), -1) {
		to := y
		if !math.IsInf(float64(hi), 1) {
			to = b.between2(y, "above", y.shape)
		}
		if err := b.each("MAXIMUM", []*value{x, b.scalar(y.name+"/low", lo)}, to); err != nil || to == y {
			return err
		}
		x = to
	}
	return b.each("MINIMUM", []*value{x, b.scalar(y.name+"/high", hi)}, y)
}

func hardSigmoid(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	product, sum, above := b.between2(y, "product", y.shape), b.between2(y, "sum", y.shape), b.between2(y, "above", y.shape)
	for _, s := range []struct {
		name string
		x    *value
		by   float32
		y    *value
	}{{"MUL", in[0], n.Alpha(), product}, {"ADD", product, n.Beta(), sum}, {"MAXIMUM", sum, 0, above}, {"MINIMUM", above, 1, y}} {
		if err := b.each(s.name, []*value{s.x, b.scalar(y.name+"/number", s.by)}, s.y); err != nil {
			return err
		}
	}
	return nil
}

func swish(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	if n.Alpha() != 1 {
		return fmt.Errorf("alpha %g has no form in the file", n.Alpha())
	}
	s := b.between2(y, "logistic", y.shape)
	if err := b.each("LOGISTIC", in, s); err != nil {
		return err
	}
	return b.each("MUL", []*value{in[0], s}, y)
}

func reciprocal(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	return b.each("DIV", []*value{b.scalar(y.name+"/one", 1), in[0]}, y)
}

// normalization is BatchNormalization by constants: a product and a sum.
func normalization(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	var c [4][]float32
	for i := range c {
		if in[i+1] == nil || in[i+1].konst == nil {
			return fmt.Errorf("its parameters are not constant")
		}
		c[i] = in[i+1].konst.F32()
	}
	shape := slices.Repeat([]int{1}, len(y.shape))
	shape[1] = len(c[0])
	factor, offset := tensor.New(tensor.Float32, shape...), tensor.New(tensor.Float32, shape...)
	for i := range c[0] {
		f := float64(c[0][i]) / math.Sqrt(float64(c[3][i])+n.Epsilon())
		factor.F32()[i], offset.F32()[i] = float32(f), float32(float64(c[1][i])-float64(c[2][i])*f)
	}
	p := b.between2(y, "product", y.shape)
	if err := b.each("MUL", []*value{in[0], b.reals(y.name+"/factor", factor)}, p); err != nil {
		return err
	}
	return b.each("ADD", []*value{p, b.reals(y.name+"/offset", offset)}, y)
}

func layerNorm(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	axis, ok := graph.Axis(n.Axis(), len(y.shape))
	if !ok || len(n.Outputs) > 1 {
		return fmt.Errorf("axis %d of %v, %d outputs", axis, y.shape, len(n.Outputs))
	}
	var axes []int
	one := slices.Clone(y.shape)
	for a := axis; a < len(y.shape); a++ {
		axes, one[a] = append(axes, a), 1
	}
	make := func(suffix string, shape []int) *value { return b.between2(y, suffix, shape) }
	mean, square, variance, sum, root, centred, scaled := make("mean", one), make("square", y.shape), make("variance", one), make("sum", one),
		make("root", one), make("centred", y.shape), make("scaled", y.shape)
	b.reduce("MEAN", in[0], mean, axes, true, 0, 0)
	if err := b.each("SQUARED_DIFFERENCE", []*value{in[0], mean}, square); err != nil {
		return err
	}
	b.reduce("MEAN", square, variance, axes, true, 0, 0)
	last := y
	if len(in) > 2 && in[2] != nil {
		last = make("product", y.shape)
	}
	for _, s := range []struct {
		name string
		in   []*value
		y    *value
	}{{"ADD", []*value{variance, b.scalar(y.name+"/epsilon", float32(n.Epsilon()))}, sum}, {"RSQRT", []*value{sum}, root},
		{"SUB", []*value{in[0], mean}, centred},
		{"MUL", []*value{centred, root}, scaled}, {"MUL", []*value{scaled, in[1]}, last}} {
		if err := b.each(s.name, s.in, s.y); err != nil {
			return err
		}
	}
	if last == y {
		return nil
	}
	return b.each("ADD", []*value{last, in[2]}, y)
}

// product is a sum of products; of constant weights if there is an operator for them.
func product(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	gemm := n.Gemm()
	if gemm.Alpha != 1 || gemm.Beta != 1 {
		return fmt.Errorf("alpha %g, beta %g have no form in the file", gemm.Alpha, gemm.Beta)
	}
	w := in[1].konst
	if w == nil || !graph.Slides(n.Op) && len(w.Shape) != 2 {
		if graph.Slides(n.Op) || gemm.TransA || gemm.TransB || len(in) > 2 && in[2] != nil {
			return fmt.Errorf("its weights are computed")
		}
		return b.matmul(in[0], in[1], y, 0, 0, tf.NoActivation)
	}
	ws := &weights{name: in[1].name, codes: w.ToRowMajor(), m: y.shape[len(y.shape)-1]}
	if graph.Slides(n.Op) {
		ws.m = y.shape[1]
	}
	var bias *tensor.Tensor
	if len(in) > 2 && in[2] != nil {
		bias = in[2].konst
		if (bias == nil || bias.Len() != ws.m && bias.Len() != 1) && !graph.Slides(n.Op) {
			p := b.between2(y, "product", y.shape)
			if err := product(b, g, n, in[:2], p); err != nil {
				return err
			}
			return b.each("ADD", []*value{p, in[2]}, y, "fused_activation_function", tf.NoActivation)
		}
		if bias == nil || bias.Len() != ws.m && bias.Len() != 1 {
			return fmt.Errorf("its bias is not one constant per output channel")
		}
	}
	ws.floatBias(bias)
	return b.sum(n, in[0], y, ws, 0, 0, tf.NoActivation)
}

func reduction(name string) floatOp {
	return func(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
		axes, err := g.ReducedAxes(n, len(in[0].shape))
		if err == nil {
			b.reduce(name, in[0], y, axes, n.KeepDims(), 0, 0)
		}
		return err
	}
}

func globalMean(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	b.reduce("MEAN", in[0], y, identity(len(y.shape))[2:], true, 0, 0)
	return nil
}

func softmaxReals(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	from, to, err := graph.SoftmaxAxes(n, g.Opset(""), len(y.shape))
	if err != nil {
		return err
	}
	axis := -1
	for a := from; a < to; a++ {
		if y.shape[a] != 1 {
			if axis >= 0 {
				return fmt.Errorf("several axes at once have no form in the file")
			}
			axis = a
		}
	}
	b.softmaxAlong(n.Op, in[0], y, max(axis, from))
	return nil
}

func concatReals(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	axis, ok := graph.Axis(n.Axis(), len(y.shape))
	if !ok {
		return fmt.Errorf("axis %d of %v", axis, y.shape)
	}
	perm := order(len(y.shape), in)
	var ids []int
	for _, x := range in {
		ids = append(ids, b.read(x, perm))
	}
	b.op("CONCATENATION", ids, []int{b.make(y, perm)}, "axis", where(perm, axis))
	return nil
}
