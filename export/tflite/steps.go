package tflite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// step writes one step of the program, by the row of its type.
func (b *builder) step(s *lower.Step) error {
	_, ok, err := rows().Make(b, s)
	if !ok {
		return fmt.Errorf("%s has no form in the file", s.Op.Name())
	}
	return err
}

// rows are the types of operations that TensorFlow Lite has.
func rows() lower.Rows[*builder, struct{}] {
	return lower.Rows[*builder, struct{}]{
		lower.Writes((*builder).linear), lower.Writes((*builder).addition),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Product) error {
			return b.binary(s, "MUL", op.Product.Y, true)
		}),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Requantize) error {
			return b.unary(s, "QUANTIZE", op.Rescale.Y.QMin, op.Rescale.Y.QMax)
		}),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Quantize) error {
			return b.unary(s, "QUANTIZE", op.Quantizer.QMin, op.Quantizer.QMax)
		}),
		lower.Writes(func(b *builder, s *lower.Step, _ *lower.Dequantize) error {
			return b.unary(s, "DEQUANTIZE", 0, 0)
		}),
		lower.Writes((*builder).clamp), lower.Writes((*builder).table), lower.Writes((*builder).softmax), lower.Writes((*builder).average),
		lower.Writes((*builder).maximum), lower.Writes((*builder).concatenate), lower.Writes((*builder).move).Of(moving()...),
		lower.Writes((*builder).island), lower.Writes((*builder).hybrid),
	}
}

func (b *builder) addition(s *lower.Step, op *lower.Sum) error {
	name := "ADD"
	if op.Sum.Subtract {
		name = "SUB"
	}
	// With scales that are powers of two TensorFlow Lite would shift int16 otherwise.
	return b.binary(s, name, op.Sum.Y, true, "pot_scale_int16", !b.wide)
}

func (b *builder) maximum(s *lower.Step, op *lower.MaxPool) error {
	x, y, err := b.pair(s)
	if err != nil {
		return err
	}
	return b.maxPool(b.p.Graph.Node(s.Node), x, y, &op.Lowest)
}

// pair is the first input and the first output of a step.
func (b *builder) pair(s *lower.Step) (x, y *value, err error) {
	if x, err = b.input(s.Inputs[0]); err == nil {
		y, err = b.valueOf(s.Outputs[0])
	}
	return x, y, err
}

// order is the order of axes that an elementwise operator takes: that of its first computed input of full rank.
func order(rank int, in []*value) []int {
	for _, x := range in {
		if x.konst == nil && x.flat == nil && len(x.shape) == rank {
			return x.perm
		}
	}
	return identity(rank)
}

// ranked is v with axes of length 1 in front, to a rank; a constant of one number has no axes where the rank is less than its own.
func (b *builder) ranked(v *value, rank int) *value {
	if len(v.shape) == rank || len(v.shape) == 0 {
		return v
	}
	if len(v.shape) > rank {
		return &value{name: v.name, typ: v.typ, enc: v.enc, shape: []int{}, at: map[string]int{},
			konst: &tensor.Tensor{DType: v.konst.DType, Shape: []int{}, Data: v.konst.ToRowMajor().Data}}
	}
	return b.shaped(v, slices.Concat(slices.Repeat([]int{1}, rank-len(v.shape)), v.shape))
}

// shaped is v in another shape.
func (b *builder) shaped(v *value, shape []int) *value {
	w := &value{name: v.name, typ: v.typ, enc: v.enc, shape: shape, at: map[string]int{}}
	if v.konst != nil {
		w.konst = &tensor.Tensor{DType: v.konst.DType, Shape: shape, Data: v.konst.ToRowMajor().Data}
		return w
	}
	from := b.read(v, identity(len(v.shape)))
	w.name += "/ranked"
	b.reshape(from, b.make(w, identity(len(shape))))
	return w
}

// operand is the tensor of v for an elementwise operator of a rank and order.
func (b *builder) operand(v *value, perm []int) int {
	if v = b.ranked(v, len(perm)); len(v.shape) == 0 {
		return b.read(v, nil)
	}
	return b.read(v, perm)
}

// unary writes an operator of one input whose output has the same shape.
func (b *builder) unary(s *lower.Step, name string, lo, hi int32, options ...any) error {
	x, y, err := b.pair(s)
	if err != nil {
		return err
	}
	perm := order(len(y.shape), []*value{x})
	in := b.read(x, perm)
	if y.enc == nil {
		b.op(name, []int{in}, []int{b.make(y, perm)}, options...)
		return nil
	}
	b.limited(y, perm, lo, hi, tf.NoActivation, false, func(out, a int) { b.op(name, []int{in}, []int{out}, options...) })
	return nil
}

// prefer is the activation that the graph has behind a step.
func (b *builder) prefer(s *lower.Step) int {
	n := b.p.Graph.Node(s.Nodes[len(s.Nodes)-1])
	lo, hi, ok := graph.LimitsOf(n, b.p.Graph.Opset(""), b.p.Graph.Const)
	if !ok {
		return tf.NoActivation
	}
	return like(lo, hi)
}

func (b *builder) binary(s *lower.Step, name string, limits qmath.Grid, fuses bool, options ...any) error {
	var in []*value
	for _, id := range s.Inputs {
		x, err := b.input(id)
		if err != nil {
			return err
		}
		in = append(in, x)
	}
	y, err := b.valueOf(s.Outputs[0])
	if err != nil {
		return err
	}
	perm := order(len(y.shape), in)
	ids := []int{b.operand(in[0], perm), b.operand(in[1], perm)}
	b.limited(y, perm, limits.QMin, limits.QMax, b.prefer(s), fuses, func(out, a int) {
		b.op(name, ids, []int{out}, append(options, "fused_activation_function", a)...)
	})
	return nil
}

func (b *builder) clamp(s *lower.Step, op *lower.Clamp) error {
	x, y, err := b.pair(s)
	if err != nil {
		return err
	}
	perm := order(len(y.shape), []*value{x})
	in := b.read(x, perm)
	switch a, ok := activation(y.enc, op.Lo, op.Hi, b.prefer(s)); {
	case ok && a == tf.Relu:
		b.op("RELU", []int{in}, []int{b.make(y, perm)})
	case ok && a == tf.Relu6:
		b.op("RELU6", []int{in}, []int{b.make(y, perm)})
	case ok && a == tf.NoActivation: // nothing is cut off
		b.reshape(in, b.make(y, perm))
	default:
		b.between(y, perm, in, op.Lo, op.Hi)
	}
	return nil
}

// tables are the operators of one number that have an integer kernel: their names, and their options.
var tables = map[string]struct {
	name    string
	options func(n *graph.Node) []any
}{
	"Elu": {"ELU", nil}, "Exp": {"EXP", nil}, "HardSwish": {"HARD_SWISH", nil}, "Log": {"LOG", nil}, "Sigmoid": {"LOGISTIC", nil},
	"Tanh":      {"TANH", nil},
	"Gelu":      {"GELU", func(n *graph.Node) []any { return []any{"approximate", n.TanhGelu()} }},
	"LeakyRelu": {"LEAKY_RELU", func(n *graph.Node) []any { return []any{"alpha", n.Alpha()} }},
}

func (b *builder) table(s *lower.Step, _ *lower.Table) error {
	n := b.p.Graph.Node(s.Node)
	row, ok := tables[n.Op]
	if !ok || n.Op == "Elu" && n.Alpha() != 1 || ops[row.name].of(types[b.p.Tensors[s.Inputs[0]].DType]) == 0 {
		return fmt.Errorf("TensorFlow Lite has no kernel of %s on these integers", n.Op)
	}
	y, err := b.valueOf(s.Outputs[0])
	if err != nil {
		return err
	}
	var options []any
	if row.options != nil {
		options = row.options(n)
	}
	lo, hi := y.enc.QMin, y.enc.QMax
	if len(s.Nodes) > 1 {
		l, h, ok := graph.LimitsOf(b.p.Graph.Node(s.Nodes[1]), b.p.Graph.Opset(""), b.p.Graph.Const)
		if !ok || len(s.Nodes) > 2 {
			return fmt.Errorf("%s and what is computed with it are one table: the file has no such operator", n.Op)
		}
		if a := like(l, h); a != tf.NoActivation {
			lo, hi = limitsOf(a, y.enc)
		} else {
			return fmt.Errorf("%s limited to [%g, %g] has no form in the file", n.Op, l, h)
		}
	}
	if fixed, has := map[string][2]float64{"LOGISTIC": {1.0 / 256, -128}, "TANH": {1.0 / 128, 0}}[row.name]; has &&
		(float64(y.enc.Scale) != fixed[0] || float64(y.enc.ZeroPoint) != fixed[1]) {
		return fmt.Errorf("its output has scale %g and zero point %d: %s requires %g and %g", y.enc.Scale, y.enc.ZeroPoint, row.name,
			fixed[0], fixed[1])
	}
	return b.unary(s, row.name, lo, hi, options...)
}

func (b *builder) softmax(s *lower.Step, op *lower.Softmax) error {
	x, y, err := b.pair(s)
	if err != nil {
		return err
	}
	if y.enc.Scale != 1.0/256 || y.enc.ZeroPoint != -128 || y.typ != tf.Int8 {
		return fmt.Errorf("its output has scale %g and zero point %d: SOFTMAX requires 1/256 and -128", y.enc.Scale, y.enc.ZeroPoint)
	}
	b.softmaxAlong("Softmax", x, y, op.Axis)
	return nil
}

// softmaxAlong writes SOFTMAX or LOG_SOFTMAX, which are along the last axis of the file.
func (b *builder) softmaxAlong(op string, x, y *value, axis int) {
	perm := order(len(x.shape), []*value{x})
	if perm[len(perm)-1] != axis {
		perm = slices.DeleteFunc(identity(len(x.shape)), func(a int) bool { return a == axis })
		perm = append(perm, axis)
	}
	in := b.read(x, perm)
	if op == "LogSoftmax" {
		b.op("LOG_SOFTMAX", []int{in}, []int{b.make(y, perm)})
		return
	}
	b.op("SOFTMAX", []int{in}, []int{b.make(y, perm)}, "beta", float32(1))
}

func (b *builder) average(s *lower.Step, op *lower.Average) error {
	x, y, err := b.pair(s)
	if err != nil {
		return err
	}
	n := b.p.Graph.Node(s.Node)
	same := !slices.ContainsFunc(op.ByCount, func(a *qmath.Average) bool { return a != nil && a.Form != qmath.AverageSame })
	if op.Axes == nil {
		if !same {
			return fmt.Errorf("AVERAGE_POOL_2D has one scale and zero point on both sides")
		}
		return b.averagePool(n, x, y, op.Y.QMin, op.Y.QMax, b.prefer(s))
	}
	if n.Op == "GlobalAveragePool" && same && len(x.shape) == 4 {
		in := b.read(x, last(4))
		b.limited(y, last(4), op.Y.QMin, op.Y.QMax, b.prefer(s), true, func(out, a int) {
			b.op("AVERAGE_POOL_2D", []int{in}, []int{out}, "padding", tf.Valid, "stride_h", x.shape[2], "stride_w", x.shape[3],
				"filter_height", x.shape[2], "filter_width", x.shape[3], "fused_activation_function", a)
		})
		return nil
	}
	b.reduce("MEAN", x, y, op.Axes, op.Keep, op.Y.QMin, op.Y.QMax)
	return nil
}

// averagePool writes AVERAGE_POOL_2D; padding that counts is written before it.
func (b *builder) averagePool(n *graph.Node, x, y *value, lo, hi int32, prefer int) error {
	geo, err := b.pool(n, x)
	if err != nil {
		return err
	}
	counts := n.Pool().CountPadding && slices.ContainsFunc(slices.Concat(geo.PadBegin, geo.PadEnd), func(p int) bool { return p != 0 })
	_, ok, _ := pads(geo.In, geo.Out, geo.Kernel, geo.Stride, geo.Dilation, geo.PadBegin, tf.Valid)
	if counts { // ceil_mode: what lies behind the padding does not
		ok = true
		for a, out := range geo.Out {
			ok = ok && (out-1)*geo.Stride[a]+(geo.Kernel[a]-1)*geo.Dilation[a] < geo.In[a]+geo.PadBegin[a]+geo.PadEnd[a]
		}
	}
	switch {
	case ok:
		b.averaged(geo, x, y, counts, lo, hi, prefer)
	case y.enc != nil:
		return fmt.Errorf("padding %v, %v that does not count: AVERAGE_POOL_2D has SAME and VALID alone", geo.PadBegin, geo.PadEnd)
	default:
		return b.uncounted(geo, x, y, counts)
	}
	return nil
}

// averaged writes AVERAGE_POOL_2D; counts: padding is written before it, and all that a window covers counts.
func (b *builder) averaged(geo *graph.Geometry, x, y *value, counts bool, lo, hi int32, prefer int) {
	in, w := b.window(x, geo.Kernel, geo.Stride, geo.Dilation, geo.PadBegin, geo.Out, nil, counts, false)
	b.slid(y, lo, hi, prefer, func(out, a int) {
		b.op("AVERAGE_POOL_2D", []int{in}, []int{out},
			w.options("filter_height", w.kernel[0], "filter_width", w.kernel[1], "fused_activation_function", a)...)
	})
}

// uncounted writes an average of floats of which all that its window covers counts, times what that is more than what has to count: what is
// inside, and the padding where padded says so.
func (b *builder) uncounted(geo *graph.Geometry, x, y *value, padded bool) error {
	sum := b.between2(y, "counted", y.shape)
	b.averaged(geo, x, sum, true, 0, 0, tf.NoActivation)
	shape := append([]int{1, 1}, geo.Out...)
	factor := tensor.New(tensor.Float32, shape...)
	for k := range factor.F32() {
		all, inside := 1, 1
		for a, o := range unravel(k, geo.Out) {
			size, first, end := 0, 0, geo.In[a]
			if padded {
				first, end = -geo.PadBegin[a], end+geo.PadEnd[a]
			}
			for i := range geo.Kernel[a] {
				if at := o*geo.Stride[a] - geo.PadBegin[a] + i*geo.Dilation[a]; at >= first && at < end {
					size++
				}
			}
			all, inside = all*geo.Kernel[a], inside*size
		}
		factor.F32()[k] = float32(all) / float32(max(inside, 1))
	}
	return b.each("MUL", []*value{sum, b.reals(y.name+"/factor", factor)}, y)
}

// maxPool writes MAX_POOL_2D; fill is the lowest number, which stands outside.
func (b *builder) maxPool(n *graph.Node, x, y *value, fill *int32) error {
	lo, hi := int32(0), int32(0)
	if y.enc != nil {
		lo, hi = y.enc.QMin, y.enc.QMax
	}
	if n.Op == "GlobalMaxPool" {
		var axes []int
		for a := 2; a < len(x.shape); a++ {
			axes = append(axes, a)
		}
		b.reduce("REDUCE_MAX", x, y, axes, true, lo, hi)
		return nil
	}
	geo, err := b.pool(n, x)
	if err != nil {
		return err
	}
	in, w := b.window(x, geo.Kernel, geo.Stride, geo.Dilation, geo.PadBegin, geo.Out, fill, false, false)
	b.slid(y, lo, hi, tf.NoActivation, func(out, a int) {
		b.op("MAX_POOL_2D", []int{in}, []int{out},
			w.options("filter_height", w.kernel[0], "filter_width", w.kernel[1], "fused_activation_function", a)...)
	})
	return nil
}

func (b *builder) pool(n *graph.Node, x *value) (*graph.Geometry, error) {
	geo, err := graph.PoolGeometry(n, graph.Static(x.shape...))
	if err != nil {
		return nil, err
	}
	if rank := len(x.shape); rank != 3 && rank != 4 {
		return nil, fmt.Errorf("%d spatial axes: the file's pools have two", rank-2)
	}
	if slices.ContainsFunc(geo.Dilation, func(d int) bool { return d != 1 }) {
		return nil, fmt.Errorf("dilation %v: the file's pools have none", geo.Dilation)
	}
	return geo, nil
}

// reduce writes an operator over axes of x.
func (b *builder) reduce(name string, x, y *value, axes []int, keep bool, lo, hi int32) {
	perm := order(len(x.shape), []*value{x})
	in := b.read(x, perm)
	var stored []int
	for _, a := range axes {
		stored = append(stored, where(perm, a))
	}
	slices.Sort(stored)
	to := perm
	if !keep { // the axes that are left, in their order, with their numbers in y
		to = nil
		for _, a := range perm {
			if slices.Contains(axes, a) {
				continue
			}
			less := 0
			for _, r := range axes {
				if r < a {
					less++
				}
			}
			to = append(to, a-less)
		}
	}
	b.limited(y, to, lo, hi, tf.NoActivation, false, func(out, _ int) {
		b.op(name, []int{in, b.list("axes", stored)}, []int{out}, "keep_dims", keep)
	})
}

func (b *builder) concatenate(s *lower.Step, op *lower.Concat) error {
	y, err := b.valueOf(s.Outputs[0])
	if err != nil {
		return err
	}
	var in []*value
	for _, id := range s.Inputs {
		x, err := b.input(id)
		if err != nil {
			return err
		}
		in = append(in, x)
	}
	perm := order(len(y.shape), in)
	var ids []int
	for i, x := range in {
		id := b.read(x, perm)
		if op.Rescale[i] != nil { // CONCATENATION has one scale
			t := b.temporary(x, "rescaled", permuted(x.shape, perm), y.enc)
			b.op("QUANTIZE", []int{id}, []int{t})
			id = t
		}
		ids = append(ids, id)
	}
	b.limited(y, perm, op.Lo, op.Hi, tf.NoActivation, false, func(out, _ int) {
		b.op("CONCATENATION", ids, []int{out}, "axis", where(perm, op.Axis), "fused_activation_function", tf.NoActivation)
	})
	return nil
}
