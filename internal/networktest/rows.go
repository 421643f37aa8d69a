package networktest

import (
	"slices"

	"qwb/graph"
)

// row is an operator, or a few that belong together: make adds it behind x and returns what it computes. Attributes and constants are
// drawn; what does not fit x is refused.
type row struct {
	name string
	make func(b *builder, x graph.ValueID) []graph.ValueID
}

type (
	value = graph.ValueID
	attrs = []graph.Attr
)

// rows are all operators, movers those of them that only move elements.
var (
	rows   = slices.Concat(sums, elementwise, pairs, pools, norms, moves, structures)
	movers = pointers(moves)
)

func pointers(list []row) []*row {
	out := make([]*row, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// unary is an operator of one input with attributes that are drawn.
func unary(op string, draw ...func(b *builder) graph.Attr) row {
	return row{op, func(b *builder, x value) []value {
		var list attrs
		for _, d := range draw {
			if b.chance(2) {
				list = append(list, d(b))
			}
		}
		return []value{b.node(op, list, x)}
	}}
}

func slope(name string, of ...float32) func(b *builder) graph.Attr {
	return func(b *builder) graph.Attr { return graph.Float(name, one(b, of...)) }
}

var elementwise = []row{
	unary("Relu"), unary("Sigmoid"), unary("Tanh"), unary("HardSwish"), unary("Identity"), unary("Abs"), unary("Neg"), unary("Exp"),
	unary("Erf"), unary("Floor"), unary("Ceil"), unary("Round"), unary("Sin"), unary("Cos"), unary("Softplus"), unary("Softsign"),
	unary("Sign"), unary("Gelu", func(*builder) graph.Attr { return graph.Str("approximate", "tanh") }), unary("Mish"),
	unary("LeakyRelu", slope("alpha", 0, 0.1, 0.3, 1.5)), unary("Elu", slope("alpha", 0.5, 2)), unary("Selu"),
	unary("Celu", slope("alpha", 0.5, 2)),
	unary("HardSigmoid", slope("alpha", 0.1, 0.5), slope("beta", 0.2, 0.6)), unary("ThresholdedRelu", slope("alpha", 0.2)),
	{"Clip", func(b *builder, x value) []value {
		in := []value{x, graph.NoValue, graph.NoValue}
		if b.chance(2) {
			in[1] = b.scalar(one(b, 0, 0, -1, -0.3, 0.5))
		}
		if b.chance(2) {
			in[2] = b.scalar(one[float64](b, 6, 1, 0.7, 0.5))
		}
		return []value{b.node("Clip", nil, in...)}
	}},
	{"PRelu", func(b *builder, x value) []value {
		shape := b.shape(x)
		if len(shape) < 2 {
			b.refuse("no channels")
		}
		slopes := append([]int{shape[1]}, slices.Repeat([]int{1}, len(shape)-2)...)
		return []value{b.node("PRelu", nil, x, b.constant(0.3, 0.1, one(b, slopes, []int{1}, shape[1:])...))}
	}},
	{"Swish", func(b *builder, x value) []value {
		return []value{b.node("Mul", nil, x, b.node("Sigmoid", nil, x))}
	}},
	{"Sqrt", func(b *builder, x value) []value { return []value{b.node("Sqrt", nil, b.node("Abs", nil, x))} }},
	{"Log", func(b *builder, x value) []value {
		return []value{b.node("Log", nil, b.node("Add", nil, b.node("Abs", nil, x), b.scalar(0.5)))}
	}},
	{"Reciprocal", func(b *builder, x value) []value {
		return []value{b.node("Reciprocal", nil, b.node("Add", nil, b.node("Abs", nil, x), b.scalar(1)))}
	}},
	{"Cast", func(b *builder, x value) []value {
		return []value{b.node("Cast", attrs{graph.Int("to", 1)}, b.node("Cast", attrs{graph.Int("to", one(b, int64(10), 11, 6, 7))}, x))}
	}},
	{"Dropout", func(b *builder, x value) []value { return []value{b.node("Dropout", nil, x)} }},
}

// binary is an operator of two inputs: with another tensor, with itself, with a constant on either side.
func binary(op string) row {
	return row{op, func(b *builder, x value) []value {
		in := []value{x, b.operand(x)}
		switch b.IntN(6) {
		case 0, 1, 2:
			in[1] = b.second(x)
		case 3:
			in[1] = x
		case 4:
			in[0], in[1] = in[1], in[0]
		}
		return []value{b.node(op, nil, in...)}
	}}
}

var pairs = []row{
	binary("Add"), binary("Sub"), binary("Mul"), binary("Max"), binary("Min"),
	{"Div", func(b *builder, x value) []value {
		return []value{b.node("Div", nil, x, b.node("Add", nil, b.node("Abs", nil, b.second(x)), b.scalar(1)))}
	}},
	{"Div by a constant", func(b *builder, x value) []value { return []value{b.node("Div", nil, x, b.constant(0.1, 2, 1))} }},
	{"Pow", func(b *builder, x value) []value {
		return []value{b.node("Pow", nil, x, b.scalar(one[float64](b, 2, 3, 1)))}
	}},
	{"Sum", func(b *builder, x value) []value { return []value{b.node("Sum", nil, x, b.second(x), b.operand(x))} }},
	{"Mean", func(b *builder, x value) []value { return []value{b.node("Mean", nil, x, b.second(x))} }},
	{"Where", func(b *builder, x value) []value {
		in := []value{b.node("Greater", nil, x, b.scalar(0)), x, b.scalar(one(b, 0, -1.5, 4))}
		if b.chance(2) {
			in[2] = b.second(x)
		}
		if b.chance(2) {
			in[1], in[2] = in[2], in[1]
		}
		return []value{b.node("Where", nil, in...)}
	}},
	{"Add far", func(b *builder, x value) []value { // scales that have nothing to do with each other
		return []value{b.node("Add", nil, x, b.node("Mul", nil, b.second(x), b.scalar(one(b, 1e6, 1e-6))))}
	}},
	{"Equal", func(b *builder, x value) []value {
		return []value{b.node("Cast", attrs{graph.Int("to", 1)}, b.node("Not", nil, b.node("Less", nil, x, b.second(x))))}
	}},
}

func reduce(op string) row {
	return row{op, func(b *builder, x value) []value {
		keep := graph.Int("keepdims", int64(b.IntN(2)))
		n := b.rank(x)
		axes := b.Perm(n)[:b.IntN(n+1)]
		if b.chance(3) && n > 2 {
			axes = []int{n - 2, n - 1}
		}
		slices.Sort(axes)
		for i := range axes {
			axes[i] -= n * b.IntN(2)
		}
		if since := map[string]int64{"ReduceSum": 13}[op]; len(axes) > 0 && (since > 0 || b.g.Opset("") >= 18) {
			return []value{b.node(op, attrs{keep}, x, b.ints(axes...))}
		} else if len(axes) > 0 {
			return []value{b.node(op, attrs{keep, graph.Ints("axes", ints(axes...)...)}, x)}
		}
		return []value{b.node(op, attrs{keep}, x)}
	}}
}

var norms = []row{
	reduce("ReduceMean"), reduce("ReduceSum"), reduce("ReduceMax"), reduce("ReduceMin"), reduce("ReduceL2"), reduce("ReduceSumSquare"),
	reduce("ReduceLogSumExp"),
	{"BatchNormalization", func(b *builder, x value) []value {
		c := b.channels(x)
		return []value{b.node("BatchNormalization", nil, x, b.constant(0.5, 1, c), b.constant(0.5, 0, c), b.constant(0.5, 0, c),
			b.node("Abs", nil, b.constant(0.5, 1, c)))}
	}},
	{"LayerNormalization", func(b *builder, x value) []value {
		c := b.shape(x)
		if len(c) < 2 {
			b.refuse("one axis")
		}
		last := c[len(c)-1]
		return []value{b.node("LayerNormalization", nil, x, b.constant(0.2, 1, last), b.constant(0.2, 0, last))}
	}},
	{"InstanceNormalization", func(b *builder, x value) []value {
		c := b.channels(x)
		return []value{b.node("InstanceNormalization", nil, x, b.constant(0.2, 1, c), b.constant(0.2, 0, c))}
	}},
	{"Softmax", func(b *builder, x value) []value {
		return []value{b.node("Softmax", attrs{graph.Int("axis", int64(b.axis(x)))}, x)}
	}},
	{"LogSoftmax", func(b *builder, x value) []value {
		return []value{b.node("LogSoftmax", attrs{graph.Int("axis", int64(b.axis(x)))}, x)}
	}},
	{"LRN", func(b *builder, x value) []value {
		if b.rank(x) != 4 {
			b.refuse("no image")
		}
		return []value{b.node("LRN", attrs{graph.Int("size", one(b, int64(1), 3, 5))}, x)}
	}},
	{"LpNormalization", func(b *builder, x value) []value {
		return []value{b.node("LpNormalization", attrs{graph.Int("axis", int64(b.axis(x)))}, x)}
	}},
	{"CumSum", func(b *builder, x value) []value { return []value{b.node("CumSum", nil, x, b.ints(b.axis(x)))} }},
	{"ArgMax", func(b *builder, x value) []value {
		return []value{b.node(one(b, "ArgMax", "ArgMin"), attrs{graph.Int("axis", int64(b.axis(x))), graph.Int("keepdims", int64(b.IntN(2)))}, x)}
	}},
	{"TopK", func(b *builder, x value) []value {
		axis := b.axis(x)
		n := b.shape(x)[at(axis, b.rank(x))]
		if n == 0 {
			b.refuse("nothing there")
		}
		return b.nodes(2, "TopK", attrs{graph.Int("axis", int64(axis))}, x, b.ints(1+b.IntN(n)))
	}},
}

// channels is the size of the second axis of an image.
func (b *builder) channels(x value) int {
	if b.rank(x) < 3 {
		b.refuse("no image")
	}
	return b.shape(x)[1]
}
