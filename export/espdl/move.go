package espdl

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// movement is an operator that moves or selects integers, in the making.
type movement struct {
	b      *builder
	s      *lower.Step
	g      *graph.Graph // of the operator alone
	n      *graph.Node
	x      *tensor.Tensor
	layout []int     // of the input
	out    []int     // of the output; nil: as the model has it
	lists  [][]int64 // constant inputs behind the first
	attrs  []Attr
	// last adds inputs behind the lists, once there is the output; may be nil.
	last func(v Value) ([]string, error)
}

// movers are those that ESP-DL has. What only renames axes is a Reshape.
var movers = map[string]func(m *movement) error{
	"Identity": (*movement).same, "Dropout": (*movement).same,
	"Reshape": (*movement).reshape, "Flatten": (*movement).reshape, "Squeeze": (*movement).reshape, "Unsqueeze": (*movement).reshape,
	"ReduceMax": (*movement).extreme, "ReduceMin": (*movement).extreme, "Transpose": (*movement).transpose, "Gather": (*movement).gather,
	"Resize": (*movement).resize, "Upsample": (*movement).resize, "DepthToSpace": (*movement).blocks, "SpaceToDepth": (*movement).blocks,
	"Slice": (*movement).slice, "Split": (*movement).split, "Pad": (*movement).pad,
}

// move writes an operator that moves or selects integers.
func (b *builder) move(s *lower.Step, op *lower.Move) error {
	n, x := op.Graph.Node(op.Graph.Nodes()[0]), b.held[s.Inputs[0]]
	return movers[n.Op](&movement{b: b, s: s, g: op.Graph, n: n, x: x, layout: straight(len(x.Shape))})
}

// numbers are those of constant input i, or of the attribute that older versions have in its place; nil where they are computed.
func (m *movement) numbers(i int, attr string) []int64 {
	if t := m.g.Const(m.n.Input(i)); t != nil && t.DType == tensor.Int64 {
		return t.I64()
	}
	return m.n.AttrInts(attr)
}

func (m *movement) same() error {
	return m.b.along(m.s, func(in string, out Value) error {
		m.b.node(m.n.Name, "Identity", []string{in}, out, m.b.kind(m.s.Outputs[0]))
		return nil
	})
}

func (m *movement) reshape() error { return m.b.reshape(m.s) }

func (m *movement) extreme() error { return m.b.extreme(m.s, m.n, m.numbers(1, "axes")) }

func (m *movement) split() error {
	axis, ok := graph.Axis(int(m.n.AttrInt("axis", 0)), len(m.layout))
	if !ok {
		return fmt.Errorf("its axis is not one of %d", len(m.layout))
	}
	return m.b.split(m.s, m.n, axis)
}

// channelsLast makes the layout of input and output channels-last.
func (m *movement) channelsLast() error {
	rank := len(m.layout)
	if m.layout = channelsLast(rank); m.layout == nil {
		return fmt.Errorf("a tensor of %d axes: 3 or 4", rank)
	}
	m.out, m.attrs = m.layout, attributes(m.n)
	return nil
}

func (m *movement) blocks() error {
	if err := m.channelsLast(); err != nil {
		return err
	}
	return m.write(m.n.Op)
}

func (m *movement) resize() error {
	if err := m.channelsLast(); err != nil {
		return err
	}
	if m.n.Op == "Upsample" {
		m.attrs = []Attr{{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}
	}
	m.last = func(Value) ([]string, error) {
		scales := make([]float32, len(m.layout))
		for i, axis := range m.layout {
			scales[i] = float32(m.b.held[m.s.Outputs[0]].Shape[axis]) / float32(m.x.Shape[axis])
		}
		given, err := m.b.initializer(m.n.Name+"_scales", tensor.FromF32(scales, len(scales)), []int64{0})
		return []string{"", given}, err
	}
	return m.write("Resize")
}

func (m *movement) transpose() error {
	perm := m.n.AttrInts("perm")
	if perm == nil {
		perm = graph.Int64s(straight(len(m.layout)))
		slices.Reverse(perm)
	}
	m.attrs = []Attr{{"perm", perm}}
	return m.write("Transpose")
}

func (m *movement) gather() error {
	m.attrs = []Attr{{"axis", m.n.AttrInt("axis", 0)}}
	if m.lists = [][]int64{m.numbers(1, "")}; m.lists[0] == nil {
		return fmt.Errorf("its indices are computed")
	}
	return m.write("Gather")
}

func (m *movement) slice() error {
	starts, ends, axes, steps := m.numbers(1, "starts"), m.numbers(2, "ends"), m.numbers(3, "axes"), m.numbers(4, "")
	if starts == nil || ends == nil {
		return fmt.Errorf("its limits are computed")
	}
	if axes == nil {
		axes = graph.Int64s(straight(len(starts)))
	}
	if steps == nil {
		steps = slices.Repeat([]int64{1}, len(starts))
	}
	m.lists = [][]int64{starts, ends, axes, steps}
	return m.write("Slice")
}

func (m *movement) pad() error {
	pads := m.numbers(1, "pads")
	if pads == nil || m.n.Pad().Mode != "constant" {
		return fmt.Errorf("pads that are computed, or not of zeros")
	}
	m.lists, m.attrs = [][]int64{pads}, []Attr{{"mode", "constant"}}
	m.last = func(v Value) ([]string, error) {
		zero, err := m.b.initializer(m.n.Name+"_value", tensor.New(m.b.p.Tensors[m.s.Inputs[0]].DType), v.Exponents)
		return []string{zero}, err
	}
	return m.write("Pad")
}

// write writes the node of an operator.
func (m *movement) write(op string) error {
	b, s := m.b, m.s
	in, err := b.in(s.Inputs[0], m.layout)
	if err != nil {
		return err
	}
	inputs := []string{in}
	for _, list := range m.lists {
		name, err := b.int64s(m.n.Name+"_input", list)
		if err != nil {
			return err
		}
		inputs = append(inputs, name)
	}
	if m.out == nil {
		m.out = straight(len(b.held[s.Outputs[0]].Shape))
	}
	v, err := b.made(s.Outputs[0], m.out)
	if err != nil {
		return err
	}
	if m.last != nil {
		more, err := m.last(v)
		if err != nil {
			return err
		}
		inputs = append(inputs, more...)
	}
	b.node(m.n.Name, op, inputs, v, append(m.attrs, b.kind(s.Outputs[0]))...)
	return nil
}

// reshape writes the first output of a step as its input in another shape.
func (b *builder) reshape(s *lower.Step) error {
	in, err := b.in(s.Inputs[0], straight(len(b.held[s.Inputs[0]].Shape)))
	if err != nil {
		return err
	}
	shape := b.held[s.Outputs[0]].Shape
	v, err := b.made(s.Outputs[0], straight(len(shape)))
	if err != nil {
		return err
	}
	to, err := b.int64s(b.p.Name(s.ID)+"_shape", graph.Int64s(shape))
	if err == nil {
		b.node(b.p.Name(s.ID), "Reshape", []string{in, to}, v, Attr{"allowzero", int64(0)}, b.kind(s.Outputs[0]))
	}
	return err
}

func (b *builder) extreme(s *lower.Step, n *graph.Node, axes []int64) error {
	rank := len(b.held[s.Inputs[0]].Shape)
	list := straight(rank)
	if len(axes) > 0 {
		list = list[:0]
		for _, a := range axes {
			axis, ok := graph.Axis(int(a), rank)
			if !ok {
				return fmt.Errorf("axis %d of %d", a, rank)
			}
			list = append(list, axis)
		}
	}
	in, attrs, layout, err := b.reduced(s, list, n.AttrInt("keepdims", 1) != 0)
	if err != nil {
		return err
	}
	v, err := b.made(s.Outputs[0], layout)
	if err == nil {
		b.node(n.Name, n.Op, in, v, append(attrs, b.kind(s.Outputs[0]))...)
	}
	return err
}

func (b *builder) split(s *lower.Step, n *graph.Node, axis int) error {
	layout := b.perm(s.Inputs[0])
	in, err := b.in(s.Inputs[0], layout)
	if err != nil {
		return err
	}
	node := Node{Name: n.Name, Op: "Split", Attrs: []Attr{{"axis", int64(slices.Index(layout, axis))}, b.kind(s.Inputs[0])}}
	var sizes []int64
	for _, id := range s.Outputs {
		if id == lower.NoTensor {
			return fmt.Errorf("nobody reads one of its parts")
		}
		v, err := b.made(id, layout)
		if err != nil {
			return err
		}
		sizes = append(sizes, int64(b.held[id].Shape[axis]))
		node.Outputs = append(node.Outputs, v.Name)
		b.m.Values = append(b.m.Values, v)
	}
	given, err := b.int64s(n.Name+"_split", sizes)
	node.Inputs = []string{in, given}
	b.m.Nodes = append(b.m.Nodes, node)
	return err
}

// floats are the operators that ESP-DL computes in float between integers; what is summed over windows and matrices is not among them.
var floats = []string{"Add", "Clip", "Div", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log",
	"LogSoftmax", "Mul", "Neg", "Pow", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Swish", "Tanh"}

// island writes float operators one by one, in the layout of the model.
func (b *builder) island(s *lower.Step, op *lower.Island) error {
	part := op.Graph.Clone()
	names := map[graph.ValueID]string{}
	for i, v := range part.Inputs {
		shape := b.held[s.Inputs[i]].Shape
		part.Value(v).Shape = graph.Static(shape...)
		name, err := b.in(s.Inputs[i], straight(len(shape)))
		if err != nil {
			return err
		}
		names[v] = name
	}
	for _, err := range graph.InferShapes(part) {
		return err
	}
	order, err := part.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if err := b.float(s, part, part.Node(id), names); err != nil {
			return part.ErrorAt(stage, id, err)
		}
	}
	return nil
}

func (b *builder) float(s *lower.Step, part *graph.Graph, n *graph.Node, names map[graph.ValueID]string) error {
	if !n.IsONNX() || !slices.Contains(floats, n.Op) {
		if b.target.Op(n) != nil {
			return errors.New("ESP-DL does not compute it in float; domain=int may quantize it")
		}
		return errors.New("ESP-DL does not compute it")
	}
	node := Node{Name: n.Name, Op: n.Op, Attrs: attributes(n)}
	kind := Attr{"quant_type", "F32"}
	for _, v := range n.Inputs {
		name, ok := names[v]
		switch c := part.Const(v); {
		case v == graph.NoValue:
		case c != nil && !ok:
			made, err := b.initializer(part.Value(v).Name, c, []int64{0})
			if err != nil {
				return err
			}
			names[v], name = made, made
		case !ok:
			return fmt.Errorf("it reads a tensor of a type that the file does not have")
		}
		node.Inputs = append(node.Inputs, name)
	}
	shape := part.Value(n.Outputs[0]).Shape
	if softmax(n) {
		axis, flat := graph.SoftmaxAxis(n, part.Opset(""))
		axis, ok := graph.Axis(axis, len(shape))
		if !ok || flat && slices.ContainsFunc(shape[axis+1:], func(d graph.Dim) bool { return d.N != 1 }) {
			return fmt.Errorf("it works along several axes")
		}
		at := slices.IndexFunc(node.Attrs, func(a Attr) bool { return a.Name == "axis" })
		if at < 0 {
			node.Attrs = append(node.Attrs, Attr{})
			at = len(node.Attrs) - 1
		}
		node.Attrs[at] = Attr{"axis", int64(axis)}
		if i := slices.Index(part.Inputs, n.Inputs[0]); i >= 0 {
			kind = b.kind(s.Inputs[i])
		}
	}
	v := Value{Type: float32Type, Exponents: []int64{0}}
	if i := slices.Index(part.Outputs, n.Outputs[0]); i >= 0 {
		made, err := b.made(s.Outputs[i], straight(len(shape)))
		if err != nil {
			return err
		}
		v = made
	} else {
		v.Name = b.unique(part.Value(n.Outputs[0]).Name)
		for _, d := range shape {
			if !d.Known() {
				return fmt.Errorf("the shape %s of its result is not known", shape)
			}
			v.Shape = append(v.Shape, d.N)
		}
	}
	names[n.Outputs[0]] = v.Name
	b.node(node.Name, node.Op, node.Inputs, v, append(node.Attrs, kind)...)
	return nil
}
