package tflite

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
)

// Operators in float that compare, choose, order and change types.

// cast changes the type of every element. TensorFlow Lite's is that of C: towards zero.
func cast(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	return b.each("CAST", in[:1], y, "in_data_type", int(in[0].typ), "out_data_type", int(y.typ))
}

// argument is the place of the largest or smallest element, of the first where there are several.
func argument(name string) floatOp {
	return func(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
		x := in[0]
		axis, ok := graph.Axis(n.Axis(), len(x.shape))
		if !ok || n.AttrInt("select_last_index", 0) != 0 {
			return fmt.Errorf("axis %d of %v, the last of equal ones: %v: %s takes the first", n.Axis(), x.shape,
				n.AttrInt("select_last_index", 0) != 0, name)
		}
		from := b.read(x, identity(len(x.shape)))
		to := b.make(y, identity(len(y.shape)))
		out := to
		if n.KeepDims() {
			out = b.tensor(tf.Tensor{Name: y.name + "/flat", Type: y.typ, Shape: slices.Delete(slices.Clone(x.shape), axis, axis+1)})
		}
		b.op(name, []int{from, b.list("axis", []int{axis})}, []int{out}, "output_type", int(y.typ))
		if out != to {
			b.reshape(out, to)
		}
		return nil
	}
}

// topK writes TOPK_V2, which orders along the last axis and has places of 32 bits.
func (b *builder) topK(n *graph.Node, in, out []*value) error {
	x := in[0]
	axis, ok := graph.Axis(int(n.AttrInt("axis", -1)), len(x.shape))
	if !ok || n.AttrInt("largest", 1) == 0 || len(in) < 2 || in[1] == nil || in[1].konst == nil || in[1].konst.Len() != 1 {
		return fmt.Errorf("axis %d of %v: TOPK_V2 takes a constant number of the largest", n.AttrInt("axis", -1), x.shape)
	}
	k := int(in[1].konst.I64()[0])
	perm := slices.DeleteFunc(identity(len(x.shape)), func(a int) bool { return a == axis })
	perm = append(perm, axis)
	shape := permuted(x.shape, perm)
	shape[len(shape)-1] = k
	if out[0] == nil {
		out[0] = &value{name: n.Name + "/values", typ: x.typ, shape: withAxis(x.shape, axis, k), at: map[string]int{}}
	}
	numbers := b.make(out[0], perm)
	places := b.tensor(tf.Tensor{Name: n.Name + "/places", Type: tf.Int32, Shape: shape})
	b.op("TOPK_V2", []int{b.read(x, perm), b.whole("k", []int{k}, []int{})}, []int{numbers, places})
	if len(out) > 1 && out[1] != nil {
		b.op("CAST", []int{places}, []int{b.make(out[1], perm)}, "in_data_type", int(tf.Int32), "out_data_type", int(out[1].typ))
	}
	return nil
}

// withAxis is a shape with an axis of another length.
func withAxis(shape []int, axis, n int) []int {
	s := slices.Clone(shape)
	s[axis] = n
	return s
}

// shapeOf is a Shape: sizes are fixed in the file, so that it is a constant.
func shapeOf(_ *builder, g *graph.Graph, n *graph.Node, _ []*value, y *value) error {
	shape, ok := g.Value(n.Inputs[0]).Shape.Ints()
	if !ok {
		return fmt.Errorf("its input is %s: the file needs fixed shapes",
			graph.FormatType(g.Value(n.Inputs[0]).DType, g.Value(n.Inputs[0]).Shape))
	}
	from := int(n.AttrInt("start", 0))
	if from < 0 {
		from += len(shape)
	}
	list := make([]int64, tensor.Count(y.shape))
	for i := range list {
		list[i] = int64(shape[max(from, 0)+i])
	}
	y.konst = tensor.FromI64(list, len(list))
	return nil
}

// cumulative is a CumSum along one axis.
func cumulative(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	x := in[0]
	if in[1] == nil || in[1].konst == nil || in[1].konst.Len() != 1 {
		return fmt.Errorf("its axis is not constant")
	}
	axis, ok := graph.Axis(int(wholeNumbers(in[1].konst)[0]), len(x.shape))
	if !ok {
		return fmt.Errorf("its axis is not one of %v", x.shape)
	}
	perm := order(len(x.shape), []*value{x})
	b.op("CUMSUM", []int{b.read(x, perm), b.whole("axis", []int{where(perm, axis)}, []int{})}, []int{b.make(y, perm)},
		"exclusive", n.AttrInt("exclusive", 0) != 0, "reverse", n.AttrInt("reverse", 0) != 0)
	return nil
}

// wholeNumbers are those of a constant of int32 or int64.
func wholeNumbers(t *tensor.Tensor) []int64 {
	if list := t.I64(); list != nil {
		return list
	}
	var list []int64
	for _, x := range t.Integers() {
		list = append(list, int64(x))
	}
	return list
}

// mean adds all inputs and divides by their number.
func mean(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	if len(in) == 1 {
		return b.same(g, n, in[0], []*value{y})
	}
	f := b.formula(y)
	sum := in[0]
	for _, x := range in[1:] {
		sum = f.do("ADD", sum, x)
	}
	return f.last("MUL", sum, f.number(1/float32(len(in))))
}

// threshold is x where that is more than alpha, else 0.
func threshold(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	f := b.formula(y)
	above := f.do("GREATER", in[0], f.number(n.Alpha()))
	return f.last("SELECT_V2", above, in[0], f.number(0))
}

// smallest is the least positive normal float32: what a norm of 0 is divided by.
const smallest = 0x1p-126

// lpNorm divides by the sum of magnitudes, or the root of the sum of squares, along an axis.
func lpNorm(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	axis, ok := graph.Axis(int(n.AttrInt("axis", -1)), len(y.shape))
	p := n.AttrInt("p", 2)
	if !ok || p != 1 && p != 2 {
		return fmt.Errorf("axis %d of %v, p %d: the file has norms of p 1 and 2", n.AttrInt("axis", -1), y.shape, p)
	}
	f := b.formula(y)
	name := map[int64]string{1: "ABS", 2: "SQUARE"}[p]
	norm := f.reduce("SUM", f.do(name, in[0]), []int{axis})
	if p == 2 {
		norm = f.do("SQRT", norm)
	}
	return f.last("DIV", in[0], f.do("MAXIMUM", norm, f.number(smallest)))
}

// instanceNorm is InstanceNormalization: over all axes behind the channels.
func instanceNorm(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	f := b.formula(y)
	axes := identity(len(y.shape))[2:]
	means := f.reduce("MEAN", in[0], axes)
	variance := f.reduce("MEAN", f.do("SQUARED_DIFFERENCE", in[0], means), axes)
	root := f.do("RSQRT", f.do("ADD", variance, f.number(float32(n.Epsilon()))))
	x := f.do("MUL", f.do("SUB", in[0], means), root)
	for i, name := range []string{"MUL", "ADD"} {
		c := in[1+i]
		if c == nil || c.konst == nil {
			return fmt.Errorf("its parameters are not constant")
		}
		shape := append([]int{1, c.konst.Len()}, slices.Repeat([]int{1}, len(axes))...)
		p := b.reals(c.name, &tensor.Tensor{DType: tensor.Float32, Shape: shape, Data: c.konst.ToRowMajor().Data})
		if i == 1 {
			return f.last(name, x, p)
		}
		x = f.do(name, x, p)
	}
	return nil
}

// formula writes an operator by several of the file: what is between them is called after the result.
type formula struct {
	b   *builder
	y   *value
	n   int
	err error
}

func (b *builder) formula(y *value) *formula { return &formula{b: b, y: y} }

func (f *formula) number(x float32) *value {
	f.n++
	return f.b.reals(fmt.Sprintf("%s/number%d", f.y.name, f.n), tensor.FromF32([]float32{x}))
}

func (f *formula) made(shape []int) *value {
	f.n++
	return f.b.between2(f.y, fmt.Sprintf("part%d", f.n), shape)
}

// do writes an elementwise operator.
func (f *formula) do(name string, in ...*value) *value {
	shape := in[0].shape
	for _, x := range in[1:] {
		s, err := tensor.Broadcast(shape, x.shape)
		if err != nil && f.err == nil {
			f.err = err
		} else if err == nil {
			shape = s
		}
	}
	v := f.made(shape)
	if name == "GREATER" {
		v.typ = tf.Bool
	}
	if f.err == nil {
		f.err = f.b.each(name, in, v)
	}
	return v
}

// reduce writes an operator over axes, which keep a length of 1.
func (f *formula) reduce(name string, x *value, axes []int) *value {
	shape := slices.Clone(x.shape)
	for _, a := range axes {
		shape[a] = 1
	}
	v := f.made(shape)
	if f.err == nil {
		f.b.reduce(name, x, v, axes, true, 0, 0)
	}
	return v
}

// last writes the operator that computes the result.
func (f *formula) last(name string, in ...*value) error {
	if f.err != nil {
		return f.err
	}
	return f.b.each(name, in, f.y)
}

// reducedBy is a sum with an operator before it and one behind it; "" for none.
func reducedBy(before, behind string) floatOp {
	return func(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
		axes, err := g.ReducedAxes(n, len(in[0].shape))
		if err != nil {
			return err
		}
		f := b.formula(y)
		x := in[0]
		if before != "" {
			x = f.do(before, x)
		}
		if f.err != nil {
			return f.err
		}
		if behind == "" {
			b.reduce("SUM", x, y, axes, n.KeepDims(), 0, 0)
			return nil
		}
		s := f.made(y.shape)
		b.reduce("SUM", x, s, axes, n.KeepDims(), 0, 0)
		return f.last(behind, s)
	}
}

// logSumExp takes the largest exponent out, so that nothing overflows.
func logSumExp(b *builder, g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	axes, err := g.ReducedAxes(n, len(in[0].shape))
	if err != nil {
		return err
	}
	f := b.formula(y)
	top := f.reduce("REDUCE_MAX", in[0], axes)
	sum := f.reduce("SUM", f.do("EXP", f.do("SUB", in[0], top)), axes)
	kept := f.do("ADD", f.do("LOG", sum), top)
	if f.err != nil {
		return f.err
	}
	b.reshape(b.read(kept, identity(len(kept.shape))), b.make(y, identity(len(y.shape))))
	return nil
}

// softplus is max(x, 0) + log(1 + exp(-|x|)).
func (f *formula) softplus(x *value) (larger, rest *value) {
	return f.do("RELU", x), f.do("LOG", f.do("ADD", f.do("EXP", f.do("NEG", f.do("ABS", x))), f.number(1)))
}

func softplus(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	f := b.formula(y)
	larger, rest := f.softplus(in[0])
	return f.last("ADD", larger, rest)
}

func mish(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	f := b.formula(y)
	larger, rest := f.softplus(in[0])
	return f.last("MUL", in[0], f.do("TANH", f.do("ADD", larger, rest)))
}

func softsign(b *builder, _ *graph.Graph, _ *graph.Node, in []*value, y *value) error {
	f := b.formula(y)
	return f.last("DIV", in[0], f.do("ADD", f.do("ABS", in[0]), f.number(1)))
}

// exponential writes scale * (max(x, 0) + min(alpha * (exp(x / by) - 1), 0)), alpha not below 0.
func (f *formula) exponential(x *value, alpha, by, scale float32) error {
	if !(alpha >= 0) || !(by > 0) || math.IsInf(float64(alpha), 0) {
		return fmt.Errorf("alpha %g has no form in the file", alpha)
	}
	part := x
	if by != 1 {
		part = f.do("DIV", x, f.number(by))
	}
	below := f.do("MINIMUM", f.do("MUL", f.do("SUB", f.do("EXP", part), f.number(1)), f.number(alpha)), f.number(0))
	if scale == 1 {
		return f.last("ADD", f.do("RELU", x), below)
	}
	return f.last("MUL", f.do("ADD", f.do("RELU", x), below), f.number(scale))
}

func celu(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	return b.formula(y).exponential(in[0], n.Alpha(), n.Alpha(), 1)
}

func selu(b *builder, _ *graph.Graph, n *graph.Node, in []*value, y *value) error {
	return b.formula(y).exponential(in[0], n.AttrFloat("alpha", 1.6732632), 1, n.AttrFloat("gamma", 1.050701))
}
