package espdl

import (
	"fmt"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// step writes the nodes of a step, by the row of its type.
func (b *builder) step(s *lower.Step) error {
	_, ok, err := rows().Make(b, s)
	if !ok {
		return fmt.Errorf("ESP-DL has no such operation on integers")
	}
	return err
}

// rows are the types of operations that ESP-DL has.
func rows() lower.Rows[*builder, struct{}] {
	return lower.Rows[*builder, struct{}]{
		lower.Writes((*builder).linear).Of("Conv", "Gemm", "MatMul"),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Sum) error {
			return b.pair(s, op.Name(), op.Sum.Y.QMin, op.Sum.Y.QMax)
		}),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Product) error {
			return b.pair(s, "Mul", op.Product.Y.QMin, op.Product.Y.QMax)
		}),
		lower.Writes((*builder).average),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.MaxPool) error { return b.pool(s, op.Name(), op.Global, nil) }),
		lower.Writes((*builder).concat),
		lower.Writes((*builder).move).Of(slices.Sorted(maps.Keys(movers))...),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Clamp) error {
			return b.along(s, func(in string, out Value) error { return b.clamp(s.Outputs[0], in, out, op.Lo, op.Hi) })
		}),
		lower.Writes((*builder).function), lower.Writes((*builder).quantize), lower.Writes((*builder).dequantize),
		lower.Writes(func(b *builder, s *lower.Step, op *lower.Requantize) error {
			return b.along(s, func(in string, out Value) error { return b.rescale(s, in, out, op.Rescale.X.Scale, op.Rescale.Y.Scale) })
		}),
		lower.Writes((*builder).island),
	}
}

func (b *builder) quantize(s *lower.Step, _ *lower.Quantize) error {
	if _, ok := b.same[s.Inputs[0]]; ok {
		return nil
	}
	return b.along(s, func(in string, out Value) error { return b.convert(s, "QuantizeLinear", in, out, s.Outputs[0]) })
}

func (b *builder) dequantize(s *lower.Step, _ *lower.Dequantize) error {
	if _, ok := b.same[s.Outputs[0]]; ok {
		return nil
	}
	return b.along(s, func(in string, out Value) error { return b.convert(s, "DequantizeLinear", in, out, s.Inputs[0]) })
}

// along writes a node whose output lies as its input.
func (b *builder) along(s *lower.Step, write func(in string, out Value) error) error {
	perm := b.perm(s.Inputs[0])
	in, err := b.in(s.Inputs[0], perm)
	if err != nil {
		return err
	}
	v, err := b.made(s.Outputs[0], perm)
	if err != nil {
		return err
	}
	return write(in, v)
}

// convert writes a conversion between integers and float; of is the tensor of integers.
func (b *builder) convert(s *lower.Step, op, in string, out Value, of lower.TensorID) error {
	t := &b.p.Tensors[of]
	scale, err := b.initializer(out.Name+"_scale", tensor.FromF32([]float32{t.Encoding.Scale}), []int64{0})
	if err != nil {
		return err
	}
	zero, err := b.initializer(out.Name+"_zero_point", tensor.New(t.DType), []int64{0})
	if err != nil {
		return err
	}
	b.node(b.p.Name(s.ID), op, []string{in, scale, zero}, out, b.kind(of))
	return nil
}

// rescale writes a RequantizeLinear: codes of one power of two as codes of another.
func (b *builder) rescale(s *lower.Step, in string, out Value, from, to float32) error {
	scale, err := b.initializer(out.Name+"_scale", tensor.FromF32([]float32{to / from}), []int64{0})
	if err != nil {
		return err
	}
	zero, err := b.initializer(out.Name+"_zero_point", tensor.New(b.p.Tensors[s.Inputs[0]].DType), []int64{0})
	if err != nil {
		return err
	}
	b.node(out.Name, "RequantizeLinear", []string{in, scale, zero}, out, b.kind(s.Inputs[0]))
	return nil
}

func (b *builder) linear(s *lower.Step, op *lower.Linear) error {
	if len(s.Outputs) != 1 || op.Residual || op.Func != nil || !b.p.Tensors[s.Outputs[0]].Quantized() {
		return fmt.Errorf("its sums become more than one tensor of integers")
	}
	n, id := b.p.Graph.Node(s.Node), s.Outputs[0]
	x := b.held[s.Inputs[0]]
	attrs := []Attr{b.kind(s.Inputs[0])}
	layout := straight(len(x.Shape))
	switch {
	case n.Op == "Conv":
		if layout = channelsLast(len(x.Shape)); layout == nil {
			return fmt.Errorf("a convolution over %d axes", len(x.Shape)-2)
		}
		geo, err := graph.WindowGeometry(n, graph.Static(x.Shape...), graph.Static(op.Weights.Codes.Shape...))
		if err != nil {
			return err
		}
		attrs = append(attrs, windowAttrs(geo)...)
		attrs = append(attrs, Attr{"dilations", graph.Int64s(geo.Dilation)}, Attr{"group",
			int64(fileGroup(op.Weights.Codes.Shape[0], op.Weights.Codes.Shape[1], geo.Group))})
	case n.Op == "Gemm" && (n.Gemm().TransA || op.Weights == nil):
		return fmt.Errorf("a Gemm whose first factor is transposed or whose second is computed")
	case n.Op == "Gemm":
		attrs = append(attrs, Attr{"transB", int64(0)})
	case n.Op == "MatMul" && op.Weights == nil:
		attrs = append(attrs, Attr{"input1_layout", "native_kn"})
	case n.Op == "MatMul":
		attrs = append(attrs, Attr{"input1_layout", "packed"})
	}
	in, err := b.in(s.Inputs[0], layout)
	if err == nil {
		in, err = b.repeated(s.Inputs[0], in, originsOf(n, op))
	}
	if err != nil {
		return err
	}
	inputs := []string{in}
	if op.Weights == nil {
		right, err := b.in(s.Inputs[1], straight(len(b.held[s.Inputs[1]].Shape)))
		if err != nil {
			return err
		}
		inputs = append(inputs, right)
	} else if inputs, err = b.constants(s, op, inputs); err != nil {
		return err
	}
	q := op.Scales[0]
	out := layout
	if n.Op != "Conv" {
		out = straight(len(b.held[id].Shape))
	}
	return b.limited(id, out, q.Lo, q.Hi, func(v Value, activation string) error {
		b.node(n.Name, n.Op, inputs, v, append(slices.Clone(attrs), Attr{"activation", activation})...)
		return nil
	})
}

// constants adds weights and bias: the bias in the unit of the sums, by channel where weights have a scale by channel.
func (b *builder) constants(s *lower.Step, op *lower.Linear, inputs []string) ([]string, error) {
	n, w := b.p.Graph.Node(s.Node), op.Weights
	packed, doc, err := pack(n, w, b.p.Tensors[s.Inputs[0]].DType == tensor.Int16, b.plain)
	if err != nil {
		return nil, err
	}
	x, err := exponent(b.p.Tensors[s.Inputs[0]].Encoding.Scale)
	if err != nil {
		return nil, err
	}
	scales := w.Scale
	if !w.PerChannel() {
		scales = scales[:1]
	}
	exponents, sums := make([]int64, len(scales)), make([]int64, len(scales))
	for c, scale := range scales {
		if exponents[c], err = exponent(scale); err != nil {
			return nil, err
		}
		sums[c] = exponents[c] + x
	}
	name, err := b.initializer(b.p.Graph.Value(n.Inputs[1]).Name, packed, exponents)
	if err != nil {
		return nil, err
	}
	b.m.Initializers[len(b.m.Initializers)-1].Doc = doc
	inputs = append(inputs, name)
	if op.Bias == nil {
		return inputs, nil
	}
	bias := &tensor.Tensor{DType: tensor.Int64, Shape: []int{len(op.Bias)}, Data: op.Bias}
	if !op.Wide {
		bias = tensor.New(tensor.Int32, len(op.Bias))
		for c, q := range op.Bias {
			bias.Data.([]int32)[c] = int32(q)
		}
	}
	name, err = b.initializer(b.p.Graph.Value(n.Inputs[2]).Name, bias, sums)
	return append(inputs, name), err
}

// pack lays out weights as the kernels read them (ResetParamLayoutPattern of ESP-PPQ). Chips with vectors want the output channels in
// blocks of 16 bytes, (N/16)HWC16 or (N/8)HWC8, those left over as NHWC (of depthwise convolutions HWN); the others NHWC, of depthwise
// convolutions HWCN. The shape says HWCN, of depthwise ones HWNC, whatever the order.
func pack(n *graph.Node, w *lower.Weights, wide, plain bool) (*tensor.Tensor, string, error) {
	codes, group := w.Codes, n.Conv().Group
	if n.Op == "Conv" {
		codes = dense(codes, group)
	} else if len(codes.Shape) != 2 {
		return nil, "", fmt.Errorf("weights of shape %v: ESP-DL has a product with one matrix", codes.Shape)
	}
	shape := codes.Shape
	x := factor{outs: shape[0], ins: 1, area: 1, codes: codes.Integers()}
	if n.Op == "Conv" {
		x.convolution(shape)
	} else {
		x.matrix(shape, w.Axis)
	}
	dims := []int{}
	switch n.Op {
	case "Conv":
		dims = append(dims, shape[2:]...)
	case "Gemm":
		dims = append(dims, 1, 1)
	}
	depthwise := n.Op == "Conv" && group > 1 && x.ins == 1
	if dims = append(dims, x.ins, x.outs); depthwise {
		dims[len(dims)-2], dims[len(dims)-1] = x.outs, x.ins
	}
	if n.Op == "Conv" && len(shape) != 3 && len(shape) != 4 {
		return nil, "", fmt.Errorf("weights of shape %v", shape)
	}
	x.to = tensor.New(w.Codes.DType, dims...)
	block, spatial := 16, "HW"
	if wide {
		block = 8
	}
	if len(shape) == 3 {
		spatial = "W"
	}
	switch {
	case plain && depthwise:
		x.positions(0)
		return x.to, "layout ==> " + spatial + "CN", nil
	case plain:
		x.channels(0)
		return x.to, "layout ==> N" + spatial + "C", nil
	}
	whole := x.outs / block * block
	x.blocks(block, whole)
	if depthwise {
		x.positions(whole)
	} else {
		x.channels(whole)
	}
	doc := fmt.Sprintf("layout ==> (N/%d)%sC%d", block, spatial, block)
	if whole < x.outs {
		doc += "_UNALIGNED"
	}
	return x.to, doc, nil
}

// factor are weights that are laid out anew: output channels, input channels, and positions of the window.
type factor struct {
	outs, ins, area int
	codes           []int32
	at              func(o, i, p int) int // where a code stands in the model
	to              *tensor.Tensor
	next            int
}

func (x *factor) convolution(shape []int) {
	x.ins = shape[1]
	for _, d := range shape[2:] {
		x.area *= d
	}
	x.at = func(o, i, p int) int { return (o*x.ins+i)*x.area + p }
}

// matrix is for products; axis is that of the output channels.
func (x *factor) matrix(shape []int, axis int) {
	x.outs, x.ins = shape[axis], shape[1-axis]
	if x.at = func(o, i, _ int) int { return o*x.ins + i }; axis == 1 {
		x.at = func(o, i, _ int) int { return i*x.outs + o }
	}
}

func (x *factor) put(o, i, p int) {
	set(x.to, x.next, x.codes[x.at(o, i, p)])
	x.next++
}

// blocks puts the output channels below whole, in blocks.
func (x *factor) blocks(block, whole int) {
	for first := 0; first < whole; first += block {
		for p := range x.area {
			for i := range x.ins {
				for o := first; o < first+block; o++ {
					x.put(o, i, p)
				}
			}
		}
	}
}

// positions puts the output channels from one on, each with one input channel, position by position.
func (x *factor) positions(from int) {
	for p := range x.area {
		for o := from; o < x.outs; o++ {
			x.put(o, 0, p)
		}
	}
}

// channels puts the output channels from one on, one after the other.
func (x *factor) channels(from int) {
	for o := from; o < x.outs; o++ {
		for p := range x.area {
			for i := range x.ins {
				x.put(o, i, p)
			}
		}
	}
}

func windowAttrs(geo *graph.Geometry) []Attr {
	pads := slices.Concat(geo.PadBegin, geo.PadEnd)
	return []Attr{{"kernel_shape", graph.Int64s(geo.Kernel)}, {"strides", graph.Int64s(geo.Stride)}, {"pads", graph.Int64s(pads)}}
}

// pair writes an operator of two tensors, element by element.
func (b *builder) pair(s *lower.Step, op string, lo, hi int32) error {
	id := s.Outputs[0]
	rank := len(b.held[id].Shape)
	layout := straight(rank)
	if last := channelsLast(rank); last != nil {
		all, any := true, false
		for _, in := range s.Inputs {
			t := &b.p.Tensors[in]
			all = all && (len(b.held[in].Shape) == rank || t.Const != nil && t.Const.Len() == 1)
			any = any || t.Const == nil && slices.Equal(b.perm(in), last)
		}
		if all && any {
			layout = last
		}
	}
	var inputs []string
	for _, in := range s.Inputs {
		want := layout
		if len(b.held[in].Shape) != rank {
			want = straight(len(b.held[in].Shape))
		}
		name, err := b.in(in, want)
		if err != nil {
			return err
		}
		inputs = append(inputs, name)
	}
	return b.limited(id, layout, lo, hi, func(v Value, activation string) error {
		return b.activated(s, op, inputs, v, activation)
	})
}

// activated writes a node of an operator that has no activation of its own, and a Relu behind it.
func (b *builder) activated(s *lower.Step, op string, inputs []string, v Value, activation string, attrs ...Attr) error {
	name, id := b.p.Name(s.ID), s.Outputs[0]
	attrs = append(attrs, b.kind(id))
	if activation == "Linear" {
		b.node(name, op, inputs, v, attrs...)
		return nil
	}
	before := v
	before.Name = b.unique(v.Name + "_unlimited")
	b.node(name, op, inputs, before, attrs...)
	lut, err := b.table(b.p.Tensors[id].DType, v.Exponents, func(q int32) int32 { return max(q, 0) })
	if err != nil {
		return err
	}
	b.node(v.Name, activation, []string{before.Name}, v, Attr{"lut", lut}, b.kind(id))
	return nil
}

// pool writes an operator over windows, or over all positions.
func (b *builder) pool(s *lower.Step, op string, global bool, clamp *lower.Average) error {
	x := b.held[s.Inputs[0]]
	layout := channelsLast(len(x.Shape))
	if layout == nil {
		return fmt.Errorf("a pool over %d axes", len(x.Shape)-2)
	}
	in, err := b.in(s.Inputs[0], layout)
	if err != nil {
		return err
	}
	var attrs []Attr
	if n := b.p.Graph.Node(s.Node); !global {
		geo, err := graph.PoolGeometry(n, graph.Static(x.Shape...))
		if err != nil {
			return err
		}
		attrs = append(windowAttrs(geo), Attr{"ceil_mode", n.AttrInt("ceil_mode", 0)})
		if op == "AveragePool" {
			attrs = append(attrs, Attr{"count_include_pad", n.AttrInt("count_include_pad", 0)})
		} else if slices.Max(geo.Dilation) > 1 {
			attrs = append(attrs, Attr{"dilations", graph.Int64s(geo.Dilation)})
		}
	}
	if clamp == nil {
		v, err := b.made(s.Outputs[0], layout)
		if err == nil {
			b.node(b.p.Name(s.ID), op, []string{in}, v, append(attrs, b.kind(s.Outputs[0]))...)
		}
		return err
	}
	return b.limited(s.Outputs[0], layout, clamp.Y.QMin, clamp.Y.QMax, func(v Value, activation string) error {
		return b.activated(s, op, []string{in}, v, activation, attrs...)
	})
}

func (b *builder) average(s *lower.Step, op *lower.Average) error {
	if op.Kind != "ReduceMean" {
		return b.pool(s, op.Kind, op.Kind == "GlobalAveragePool", op)
	}
	in, attrs, layout, err := b.reduced(s, op.Axes, op.Keep)
	if err != nil {
		return err
	}
	return b.limited(s.Outputs[0], layout, op.Y.QMin, op.Y.QMax, func(v Value, activation string) error {
		return b.activated(s, "ReduceMean", in, v, activation, attrs...)
	})
}

// reduced brings a reduction over axes to the layout of its input: its inputs, attributes and the layout of the result.
func (b *builder) reduced(s *lower.Step, axes []int, keep bool) (in []string, attrs []Attr, layout []int, err error) {
	perm := b.perm(s.Inputs[0])
	x, err := b.in(s.Inputs[0], perm)
	if err != nil {
		return nil, nil, nil, err
	}
	var places []int64
	var left []int
	for i, axis := range perm {
		switch gone := slices.Contains(axes, axis); {
		case gone:
			places = append(places, int64(i))
		default:
			left = append(left, axis)
		}
	}
	layout = perm
	if !keep { // axes are counted without those that are gone
		layout = make([]int, len(left))
		for i, axis := range left {
			for _, other := range left {
				if other < axis {
					layout[i]++
				}
			}
		}
	}
	name, err := b.int64s(b.p.Name(s.ID)+"_axes", places)
	return []string{x, name}, []Attr{{"keepdims", map[bool]int64{true: 1}[keep]}}, layout, err
}

func (b *builder) concat(s *lower.Step, op *lower.Concat) error {
	id := s.Outputs[0]
	layout := straight(len(b.held[id].Shape))
	if last := channelsLast(len(layout)); last != nil && slices.ContainsFunc(s.Inputs, func(in lower.TensorID) bool {
		return b.p.Tensors[in].Const == nil && slices.Equal(b.perm(in), last)
	}) {
		layout = last
	}
	var inputs []string
	for i, in := range s.Inputs {
		name, err := b.in(in, layout)
		if err != nil {
			return err
		}
		if r := op.Rescale[i]; r != nil {
			v := b.value(id)
			v.Shape = nil
			for _, axis := range layout {
				v.Shape = append(v.Shape, int64(b.held[in].Shape[axis]))
			}
			v.Name = b.unique(name + "_rescaled")
			v.Exponents = make([]int64, 1)
			if v.Exponents[0], err = exponent(r.Y.Scale); err != nil {
				return err
			}
			one := *s
			one.Inputs = []lower.TensorID{in}
			if err := b.rescale(&one, name, v, r.X.Scale, r.Y.Scale); err != nil {
				return err
			}
			name = v.Name
		}
		inputs = append(inputs, name)
	}
	return b.limited(id, layout, op.Lo, op.Hi, func(v Value, activation string) error {
		return b.activated(s, "Concat", inputs, v, activation, Attr{"axis", int64(slices.Index(layout, op.Axis))})
	})
}

// function writes a table. ESP-PPQ calls tables of int16, and those of several operators, LUT.
func (b *builder) function(s *lower.Step, op *lower.Table) error {
	n := b.p.Graph.Node(s.Node)
	return b.along(s, func(in string, out Value) error {
		t := &b.p.Tensors[s.Outputs[0]]
		if b.p.Tensors[s.Inputs[0]].DType != t.DType {
			return fmt.Errorf("a table from %s to %s", b.p.Tensors[s.Inputs[0]].DType, t.DType)
		}
		codes := op.Codes.Integers()
		lut, err := b.table(t.DType, out.Exponents, func(q int32) int32 { return codes[int(q)&(len(codes)-1)] })
		if err != nil {
			return err
		}
		attrs, name := []Attr{{"lut", lut}, b.kind(s.Outputs[0])}, n.Op
		if t.DType == tensor.Int16 || len(s.Nodes) > 1 {
			name = "LUT"
			attrs = append(attrs, Attr{"original_op_type", n.Op})
			if t.DType == tensor.Int16 {
				attrs = append(attrs, Attr{"int16_lut_step", int64(max(b.p.Profile.Step, 1))})
			}
		} else {
			attrs = append(attrs, attributes(n)...)
		}
		b.node(n.Name, name, []string{in}, out, attrs...)
		return nil
	})
}

// attributes are those of a node that the file can hold: numbers, texts and lists of whole numbers.
func attributes(n *graph.Node) []Attr {
	var list []Attr
	for i := range n.Attrs {
		switch a := &n.Attrs[i]; a.Kind {
		case graph.AttrFloat:
			list = append(list, Attr{a.Name, a.F})
		case graph.AttrInt:
			list = append(list, Attr{a.Name, a.I})
		case graph.AttrString:
			list = append(list, Attr{a.Name, a.S})
		case graph.AttrInts:
			list = append(list, Attr{a.Name, a.Ints})
		}
	}
	return list
}
