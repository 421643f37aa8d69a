package cprogram

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// operator writes one float operator: its calls, and the array that it fills.
type operator func(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error)

// operators are those that float islands may have, besides those that move elements.
func operators() map[string]operator {
	return map[string]operator{
		"Abs": unary("absolute"), "Erf": unary("error_function"), "Exp": unary("exponential"), "HardSwish": unary("hard_swish"),
		"Neg": unary("negative"), "Reciprocal": unary("inverse"), "Relu": unary("relu"), "Sigmoid": unary("logistic"), "Sqrt": unary("root"),
		"Tanh": unary("hyperbolic_tangent"), "Gelu": gelu, "Clip": clip, "Pow": pow,
		"LeakyRelu": attributes("leaky_relu", "alpha", 0.01, "", 0), "HardSigmoid": attributes("hard_sigmoid", "alpha", 0.2, "beta", 0.5),
		"Swish": attributes("swish", "alpha", 1, "", 0),
		"Add":   binary("plus"), "Sub": binary("minus"), "Mul": binary("times"), "Div": binary("over"), "Max": binary("larger"),
		"Min":     binary("smaller"),
		"Softmax": softmaxReals, "LayerNormalization": layerNorm, "ReduceMean": reduce(true), "ReduceSum": reduce(false),
		"GlobalAveragePool": globalMean, "MaxPool": maxPoolReals, "GlobalMaxPool": maxPoolReals, "Concat": concatReals,
		"AveragePool": averageReals, "Where": chooseReals, "MatMul": matmulReals, "Gemm": matmulReals, "Conv": convReals,
		"ConvTranspose": convReals,
	}
}

// isMove reports whether an operator only moves or selects elements.
func isMove(op string) bool {
	return slices.Contains(reshapes, op) || slices.Contains(moves, op) || op == "ReduceMax" || op == "ReduceMin"
}

// known lists the operators of islands.
func known() string {
	var names []string
	for op := range operators() {
		names = append(names, op)
	}
	names = append(append(names, reshapes...), append(slices.Clone(moves), "ReduceMax", "ReduceMin")...)
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// filled is the array of an operator's result.
func (w *writer) filled(n *graph.Node, shape []int) *value {
	return w.scratch(tensor.Float32, fmt.Sprintf("%s %q", n.Op, n.Name), shape...)
}

func unary(f string) operator {
	return func(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
		x := w.use(in[0])
		y := w.filled(n, shape)
		w.call("each_%s(%s, %d, %s)", f, x, y.count(), w.use(y))
		return y, w.kernels.need("apply", f)
	}
}

// with is unary with two numbers.
func (w *writer) with(f string, n *graph.Node, x *value, a, b float32) (*value, error) {
	from := w.use(x)
	y := w.filled(n, x.shape)
	w.call("each_%s(%s, %d, %s, %s, %s)", f, from, y.count(), w.real(a), w.real(b), w.use(y))
	return y, w.kernels.need("apply_with", f)
}

func attributes(f, a string, defA float32, b string, defB float32) operator {
	return func(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
		return w.with(f, n, in[0], n.AttrFloat(a, defA), n.AttrFloat(b, defB))
	}
}

func gelu(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	if n.TanhGelu() {
		return unary("gelu_tanh")(w, g, n, in, shape)
	}
	return unary("gelu")(w, g, n, in, shape)
}

func clip(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	lo, hi := n.Limits()
	limits := []float32{lo, hi}
	for i := range limits {
		v := n.Input(i + 1)
		if v == graph.NoValue {
			continue
		}
		c := g.Const(v)
		if c == nil || c.DType != tensor.Float32 || c.Len() != 1 {
			return nil, fmt.Errorf("limit %d is not a constant", i)
		}
		limits[i] = c.F32()[0]
	}
	return w.with("between", n, in[0], limits[0], limits[1])
}

func pow(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	c := g.Const(n.Input(1))
	if c == nil || c.Len() != 1 || c.DType != tensor.Float32 {
		return nil, fmt.Errorf("its exponent is not one constant number")
	}
	switch c.F32()[0] {
	case 2:
		return unary("square")(w, g, n, in, in[0].shape)
	case 0.5:
		return unary("root")(w, g, n, in, in[0].shape)
	}
	return nil, fmt.Errorf("the exponent %g has no form in C; 2 and 0.5 have", c.F32()[0])
}

func binary(f string) operator {
	return func(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
		acc := in[0]
		for k, b := range in[1:] {
			out, err := tensor.Broadcast(acc.shape, b.shape)
			if err != nil {
				return nil, err
			}
			layout, err := broadcastLayout(acc.shape, b.shape)
			if err != nil {
				return nil, err
			}
			w.line("static const struct layout walk%d = %s;", k, layout)
			from, by := w.use(acc), w.use(b)
			y := w.filled(n, out)
			w.call("each_%s(&walk%d, %s, %s, %s)", f, k, from, by, w.use(y))
			acc = y
		}
		return acc, w.kernels.need("combine", f)
	}
}

func softmaxReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	from, to, err := graph.SoftmaxAxes(n, g.Opset(""), len(shape))
	if err != nil || from == len(shape) {
		return nil, fmt.Errorf("axis %d of %v", from, shape)
	}
	rows, inner := tensor.Count(shape[from:to]), tensor.Count(shape[to:])
	x := w.use(in[0])
	y := w.filled(n, shape)
	w.call("softmax_reals(%s, %d, %d, %d, %s)", x, tensor.Count(shape[:from]), rows, inner, w.use(y))
	return y, w.kernels.need("softmax_reals")
}

func layerNorm(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	axis, ok := graph.Axis(n.Axis(), len(shape))
	if !ok || len(n.Outputs) > 1 {
		return nil, fmt.Errorf("axis %d of %v, %d outputs", axis, shape, len(n.Outputs))
	}
	size := tensor.Count(shape[axis:])
	bias := "NULL"
	if len(in) > 2 && in[2] != nil {
		bias = w.use(in[2])
	}
	x, scale := w.use(in[0]), w.use(in[1])
	y := w.filled(n, shape)
	w.call("layer_norm(%s, %d, %d, %s, %s, %g, %s)", x, tensor.Count(shape[:axis]), size, scale, bias, float32(n.Epsilon()), w.use(y))
	return y, w.kernels.need("layer_norm")
}

func reduce(mean bool) operator {
	return func(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
		axes, err := axesOf(g, n, len(in[0].shape))
		if err != nil {
			return nil, err
		}
		return w.meanReals(n, in[0], axes, mean, "double", shape)
	}
}

func globalMean(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	var axes []int
	for a := 2; a < len(shape); a++ {
		axes = append(axes, a)
	}
	return w.meanReals(n, in[0], axes, true, "float", shape)
}

// meanReals writes a mean, or a sum, whose terms are added in the C type sum.
func (w *writer) meanReals(n *graph.Node, x *value, axes []int, mean bool, sum string, shape []int) (*value, error) {
	of, over, err := reductionLayouts(x.shape, axes)
	if err != nil {
		return nil, err
	}
	count := 1
	for _, a := range axes {
		if mean {
			count *= x.shape[a]
		}
	}
	w.line("static const struct layout of = %s, over = %s;", of, over)
	from := w.use(x)
	y := w.filled(n, shape)
	w.call("mean_in_%s(&of, &over, %d, %s, %s)", sum, count, from, w.use(y))
	return y, w.kernels.need("mean_reals", sum)
}

func maxPoolReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	window, err := w.poolWindow(n, in[0].shape, n.Op == "GlobalMaxPool")
	if err != nil {
		return nil, err
	}
	w.line("static const struct window window = %s;", window)
	x := w.use(in[0])
	y := w.filled(n, shape)
	w.call("max_pool_f32(&window, %d, %s, %s, %s)", tensor.Count(in[0].shape[:2]), x, w.real(float32(math.Inf(-1))), w.use(y))
	return y, w.kernels.need("max_pool", "f32")
}

func averageReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	window, err := w.poolWindow(n, in[0].shape, false)
	if err != nil {
		return nil, err
	}
	most := 1
	for _, k := range n.Pool().Kernel {
		most *= int(k)
	}
	ways := make([]string, most)
	for i := range ways {
		ways[i] = fmt.Sprintf("{0, %d}", i+1)
	}
	w.line("static const struct window window = %s;", window)
	w.line("static const struct average_reals ways[] = {%s};", strings.Join(ways, ", "))
	x := w.use(in[0])
	y := w.filled(n, shape)
	w.call("average_reals_pool_f32_f32(&window, ways, 1, %d, 0, %d, %s, %s)", bit(n.Pool().CountPadding),
		tensor.Count(in[0].shape[:2]), x, w.use(y))
	if err := w.kernels.need("average_reals"); err != nil {
		return nil, err
	}
	return y, w.kernels.need("average_pool", "average_reals", "f32", "f32")
}

func chooseReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	layout, err := broadcastLayout(in[0].shape, in[1].shape, in[2].shape)
	if err != nil {
		return nil, err
	}
	w.line("static const struct layout walk = %s;", layout)
	c, a, b := w.use(in[0]), w.use(in[1]), w.use(in[2])
	y := w.filled(n, shape)
	w.call("choose_reals(&walk, %s, %s, %s, %s)", c, a, b, w.use(y))
	return y, w.kernels.need("choose_reals")
}

func concatReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	axis, ok := graph.Axis(n.Axis(), len(shape))
	if !ok {
		return nil, fmt.Errorf("axis %d of %v", axis, shape)
	}
	y := w.filled(n, shape)
	outer, row, at := tensor.Count(shape[:axis]), tensor.Count(shape[axis:]), 0
	for _, x := range in {
		size := tensor.Count(x.shape[axis:])
		w.call("for (int i = 0; i < %d; i++) copy(%s + i * %d + %d, %s + i * %d, %d)", outer, w.use(y), row, at, w.use(x), size, 4*size)
		at += size
	}
	return y, w.kernels.need("copy")
}

func matmulReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	gemm := n.Gemm()
	if gemm.Alpha != 1 || gemm.Beta != 1 {
		return nil, fmt.Errorf("alpha and beta other than 1 have no form in C")
	}
	product, err := productOf(in[0].shape, in[1].shape, gemm.TransA, gemm.TransB)
	if err != nil {
		return nil, err
	}
	bias := "NULL, 0, 0"
	if len(in) > 2 && in[2] != nil {
		step := steps(shape, in[2].shape)
		bias = fmt.Sprintf("%s, %d, %d", w.use(in[2]), step[0], step[1])
	}
	w.line("static const struct product shape = %s;", w.productText(product, 0))
	a, b := w.use(in[0]), w.use(in[1])
	y := w.filled(n, shape)
	w.call("matmul_reals(&shape, %s, %s, %s, %s)", a, b, bias, w.use(y))
	return y, w.kernels.need("matmul_reals")
}

func convReals(w *writer, g *graph.Graph, n *graph.Node, in []*value, shape []int) (*value, error) {
	kernel := convKernel(n) + "_reals"
	geo, err := graph.WindowGeometry(n, graph.Static(in[0].shape...), graph.Static(in[1].shape...))
	if err != nil {
		return nil, err
	}
	window, err := windowText(geo)
	if err != nil {
		return nil, err
	}
	bias := "NULL"
	if len(in) > 2 && in[2] != nil {
		bias = w.use(in[2])
	}
	w.line("static const struct convolution shape = {%s, %d, %d, %d, %d};", window, in[0].shape[0], geo.Group,
		in[0].shape[1]/geo.Group, shape[1])
	x, weights := w.use(in[0]), w.use(in[1])
	y := w.filled(n, shape)
	w.call("%s(&shape, %s, %s, %s, %s)", kernel, x, weights, bias, w.use(y))
	return y, w.kernels.need(kernel)
}
