package espdl

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// move writes an operator that moves or selects integers. What only renames axes is a Reshape.
func (b *builder) move(s *lower.Step, op *lower.Move) error {
	n := op.Graph.Node(op.Graph.Nodes()[0])
	x := b.held[s.Inputs[0]]
	rank := len(x.Shape)
	layout := straight(rank)
	numbers := func(i int, attr string) []int64 {
		if t := op.Graph.Const(n.Input(i)); t != nil && t.DType == tensor.Int64 {
			return t.I64()
		}
		return n.AttrInts(attr)
	}
	var lists [][]int64 // constant inputs behind the first
	var attrs []Attr
	switch n.Op {
	case "Identity", "Dropout":
		return b.along(s, func(in string, out Value) error {
			b.node(n.Name, "Identity", []string{in}, out, b.kind(s.Outputs[0]))
			return nil
		})
	case "Reshape", "Flatten", "Squeeze", "Unsqueeze":
		return b.reshape(s)
	case "ReduceMax", "ReduceMin":
		return b.extreme(s, n, numbers(1, "axes"))
	case "Resize", "Upsample", "DepthToSpace", "SpaceToDepth":
		if layout = channelsLast(rank); layout == nil {
			return fmt.Errorf("a tensor of %d axes: 3 or 4", rank)
		}
		attrs = attributes(n)
	case "Transpose":
		perm := n.AttrInts("perm")
		if perm == nil {
			perm = wide(straight(rank))
			slices.Reverse(perm)
		}
		attrs = []Attr{{"perm", perm}}
	case "Gather":
		attrs = []Attr{{"axis", n.AttrInt("axis", 0)}}
		if lists = [][]int64{numbers(1, "")}; lists[0] == nil {
			return fmt.Errorf("its indices are computed")
		}
	case "Slice":
		starts, ends, axes, steps := numbers(1, "starts"), numbers(2, "ends"), numbers(3, "axes"), numbers(4, "")
		if starts == nil || ends == nil {
			return fmt.Errorf("its limits are computed")
		}
		if axes == nil {
			axes = wide(straight(len(starts)))
		}
		if steps == nil {
			steps = slices.Repeat([]int64{1}, len(starts))
		}
		lists = [][]int64{starts, ends, axes, steps}
	case "Split":
		axis, ok := graph.Axis(int(n.AttrInt("axis", 0)), rank)
		if !ok {
			return fmt.Errorf("its axis is not one of %d", rank)
		}
		return b.split(s, n, axis)
	case "Pad":
		pads := numbers(1, "pads")
		if pads == nil || n.Pad().Mode != "constant" {
			return fmt.Errorf("pads that are computed, or not of zeros")
		}
		lists, attrs = [][]int64{pads}, []Attr{{"mode", "constant"}}
	default:
		return fmt.Errorf("ESP-DL has no such operator")
	}
	in, err := b.in(s.Inputs[0], layout)
	if err != nil {
		return err
	}
	inputs := []string{in}
	for _, list := range lists {
		name, err := b.int64s(n.Name+"_input", list)
		if err != nil {
			return err
		}
		inputs = append(inputs, name)
	}
	out := layout
	if n.Op != "Resize" && n.Op != "Upsample" && n.Op != "DepthToSpace" && n.Op != "SpaceToDepth" {
		out = straight(len(b.held[s.Outputs[0]].Shape))
	}
	v, err := b.made(s.Outputs[0], out)
	if err != nil {
		return err
	}
	name := n.Op
	switch n.Op {
	case "Resize", "Upsample":
		if name = "Resize"; n.Op == "Upsample" {
			attrs = []Attr{{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}
		}
		scales := make([]float32, rank)
		for i, axis := range layout {
			scales[i] = float32(b.held[s.Outputs[0]].Shape[axis]) / float32(x.Shape[axis])
		}
		given, err := b.initializer(n.Name+"_scales", tensor.FromF32(scales, rank), []int64{0})
		if err != nil {
			return err
		}
		inputs = append(inputs, "", given)
	case "Pad":
		zero, err := b.initializer(n.Name+"_value", tensor.New(b.p.Tensors[s.Inputs[0]].DType), v.Exponents)
		if err != nil {
			return err
		}
		inputs = append(inputs, zero)
	}
	b.node(n.Name, name, inputs, v, append(attrs, b.kind(s.Outputs[0]))...)
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
	to, err := b.int64s(b.p.Name(s.ID)+"_shape", wide(shape))
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
var floats = []string{"Add", "Clip", "Div", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "Mul", "Neg",
	"Pow", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Swish", "Tanh"}

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
			return fmt.Errorf("%q (%s): %w", part.Node(id).Name, part.Node(id).Op, err)
		}
	}
	return nil
}

func (b *builder) float(s *lower.Step, part *graph.Graph, n *graph.Node, names map[graph.ValueID]string) error {
	if n.Domain != "" && n.Domain != "ai.onnx" || !slices.Contains(floats, n.Op) {
		return fmt.Errorf("ESP-DL does not compute it in float; domain=int may quantize it")
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
