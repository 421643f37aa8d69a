package ncnn

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// Parameters of layers are compared with the operators of the model in words: those of the model are made of its attributes and shapes,
// those of the file of the keys of a layer, with the defaults that ncnn has where a key is missing.

// wanting yields what a file holds; see export.Recovered.
type wanting = func(*export.Input, func(*export.Item) error) error

// withLayers is a list of what a file holds, and what the layers of operators have to say: those that slide always, others where the
// file has a layer for them alone. Several may be one layer, and some need none.
func (r *recoverer) withLayers(wants wanting) wanting {
	return func(in *export.Input, yield func(*export.Item) error) error {
		if err := wants(in, yield); err != nil {
			return err
		}
		for _, id := range r.fixed.Nodes() {
			n := r.fixed.Node(id)
			it := &export.Item{At: export.NodeName(n.Name), Kind: export.Attributes, Texts: r.asked(n)}
			if it.Texts == nil || !r.said[n.ID] && it.Texts[0] != windowed {
				continue
			}
			if err := yield(it); err != nil {
				return err
			}
		}
		var err error
		r.wires.each(func(at string, model, _ func() []string) {
			if err == nil {
				err = yield(&export.Item{At: at, Kind: reads, Texts: model()})
			}
		})
		return err
	}
}

// windowed is the first word of what slides and has weights.
const windowed = "window"

func words(first string, pairs ...any) []string {
	list := []string{first}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf("%v=%v", pairs[i], pairs[i+1]))
	}
	return list
}

// parameters adds what the layer of a node says.
func (r *recoverer) parameters(id graph.NodeID) {
	n := r.fixed.Node(id)
	if r.asked(n) == nil {
		return
	}
	var texts []string
	if l := r.layer(n); l != nil {
		texts = r.says(l, n)
	} else if p := r.fixed.Producer(n.Inputs[0]); p != graph.NoNode && actsAs(n, r.fixed) != "" {
		_, sole := r.fixed.SoleUse(n.Inputs[0]) // of several readers it belongs to a pattern
		if l := r.before(p); l != nil && (sole || l.integer(keyActivation, 0) != 0) {
			v, _ := l.get(keyActivation + 1)
			numbers, _ := v.([]float32)
			texts = words(activationOf(l.integer(keyActivation, 0), numbers))
		}
	}
	if texts != nil {
		r.said[id] = true
		r.held.Add(&export.Item{At: export.NodeName(n.Name), Kind: export.Attributes, Texts: texts})
	}
}

// before is the layer of a node, or of what is in front of it where it only hands on.
func (r *recoverer) before(id graph.NodeID) *layer {
	for n := r.fixed.Node(id); ; n = r.fixed.Node(id) {
		if l := r.layer(n); l != nil {
			return l
		}
		if n.Op != "Cast" && !n.HandsOnInOrder() { // these need no layer, or one that only says sizes
			return nil
		}
		if id = r.fixed.Producer(n.Inputs[0]); id == graph.NoNode {
			return nil
		}
	}
}

// binaries are the operators of BinaryOp; turned: of the second operand and the first.
var binaries = map[int]string{0: "Add", 1: "Sub", 2: "Mul", 3: "Div", 4: "Max", 5: "Min", 7: "Sub turned", 8: "Div turned"}

// unaries are the operators of UnaryOp, reductions those of Reduction.
var (
	unaries = map[int]string{0: "Abs", 1: "Neg", 2: "Floor", 3: "Ceil", 5: "Sqrt", 7: "Exp", 8: "Log", 9: "Sin", 10: "Cos", 11: "Tan",
		12: "Asin", 13: "Acos", 14: "Atan", 15: "Reciprocal", 18: "Round"}
	reductions = map[int]string{0: "ReduceSum", 3: "ReduceMean", 4: "ReduceMax", 5: "ReduceMin", 6: "ReduceProd", 7: "ReduceL1", 8: "ReduceL2"}
)

func valued(m map[int]string, op string) bool {
	for _, name := range m {
		if name == op {
			return true
		}
	}
	return false
}

// actsAs is the activation that a node is, with its numbers; "" for none.
func actsAs(n *graph.Node, g *graph.Graph) string {
	switch n.Op {
	case "Relu":
		return activationOf(1, nil)
	case "LeakyRelu":
		if n.Alpha() == 0 {
			return activationOf(1, nil)
		}
		return activationOf(2, []float32{n.Alpha()})
	case "Clip":
		lo, hi, ok := graph.LimitsOf(n, g.Opset(""), g.Const)
		switch lo = min(lo, hi); {
		case !ok:
			return ""
		case lo == 0 && math.IsInf(float64(hi), 1):
			return activationOf(1, nil)
		}
		return activationOf(3, []float32{max(lo, -math.MaxFloat32), min(hi, math.MaxFloat32)})
	case "Sigmoid":
		return activationOf(4, nil)
	case "Mish":
		return activationOf(5, nil)
	case "HardSwish":
		return activationOf(6, []float32{1. / 6, 0.5})
	}
	return ""
}

// activationOf is an activation by its number in ncnn.
func activationOf(typ int, numbers []float32) string {
	names := []string{"none", "ReLU", "LeakyReLU", "Clip", "Sigmoid", "Mish", "HardSwish"}
	if typ < 0 || typ >= len(names) {
		return fmt.Sprint("activation ", typ)
	}
	return strings.TrimSpace(fmt.Sprintln(names[typ], numbers))
}

// asked is what a node of the model wants of its layer; nil: nothing that is known here.
func (r *recoverer) asked(n *graph.Node) []string {
	g := r.fixed
	if !n.IsONNX() || len(n.Inputs) == 0 || n.Inputs[0] == graph.NoValue {
		return nil
	}
	if act := actsAs(n, g); act != "" {
		return words(act)
	}
	x, known := g.Value(n.Inputs[0]).Shape.Ints()
	y, fixed := g.Value(n.Outputs[0]).Shape.Ints()
	if !known || !fixed {
		return nil
	}
	switch {
	case n.Op == "Conv" || n.Op == "ConvTranspose":
		return askedWindow(g, n)
	case n.Op == "MaxPool" || n.Op == "AveragePool":
		return askedPool(g, n)
	case (n.Op == "GlobalMaxPool" || n.Op == "GlobalAveragePool") && len(x) != 4:
		return nil // a Reduction
	case n.Op == "GlobalMaxPool" || n.Op == "GlobalAveragePool":
		return words("pool", "average", n.Op == "GlobalAveragePool", "global", true)
	case n.Op == "Softmax":
		axis, flat := graph.SoftmaxAxis(n, g.Opset(n.Domain))
		axis, _ = graph.Axis(axis, len(x))
		for flat && axis < len(x)-1 && x[axis] == 1 && slices.Max(x[axis:]) > 1 {
			axis++
		}
		return words("softmax", "axis", innerAxis(axis, x))
	case n.Op == "Concat":
		axis, _ := graph.Axis(n.Axis(), len(y))
		return words("concat", "axis", innerAxis(axis, y))
	case n.Op == "Split":
		axis, _ := graph.Axis(n.Axis(), len(x))
		var sizes []int
		for _, v := range n.Outputs {
			if s, ok := g.Value(v).Shape.Ints(); ok && axis < len(s) {
				sizes = append(sizes, s[axis])
			}
		}
		return words("slice", "axis", innerAxis(axis, x), "sizes", sizes)
	case valued(reductions, n.Op):
		return askedReduction(g, n, x)
	case valued(unaries, n.Op):
		return words("unary", "op", n.Op)
	case valued(binaries, n.Op) && len(n.Inputs) == 2:
		return askedBinary(g, n)
	case n.Op == "Resize" || n.Op == "Upsample":
		linear := n.AttrStr("mode", "nearest") == "linear" && len(x) > 1 && x[len(x)-2]*x[len(x)-1] > 1 // of one element all are the same
		corners := linear && n.AttrStr("coordinate_transformation_mode", "") == "align_corners"
		return words("resize", "to", y[max(0, len(y)-2):], "linear", linear, "align_corners", corners)
	case n.Reshapes():
		return words("reshape", "to", inner(y))
	case n.Op == "Transpose":
		return askedOrder(n, x)
	case n.Op == "Slice" && stepped(g, n):
		return nil // several layers
	case n.Op == "Slice":
		return askedCrop(g, n, x)
	case n.Op == "BatchNormalization" || n.Op == "LayerNormalization":
		return words("norm", "epsilon", float32(n.Epsilon()))
	case n.Op == "Pad":
		return askedPads(g, n, x)
	}
	return nil
}

// inner is a shape without a batch of 1, as ncnn has it.
func inner(s []int) []int {
	switch {
	case batched(s):
		return s[1:]
	case len(s) == 0:
		return []int{1}
	}
	return s
}

// innerAxis is an axis counted without a batch of 1.
func innerAxis(axis int, s []int) int { return axis - truth(batched(s)) }

func windowWords(first string, kernel, stride, begin, end, dilation, more []int, group int) []string {
	if more == nil {
		more = make([]int, len(kernel))
	}
	return words(first, "kernel_shape", kernel, "strides", stride, "pads", slices.Concat(begin, end), "dilations", dilation,
		"output_padding", more, "group", group)
}

func askedWindow(g *graph.Graph, n *graph.Node) []string {
	w := g.Const(n.Input(graph.WeightInput))
	if w == nil {
		return nil
	}
	find := graph.ConvGeometry
	if n.Op == "ConvTranspose" {
		find = graph.ConvTransposeGeometry
	}
	geo, err := find(n, g.Value(n.Inputs[0]).Shape, graph.Static(w.Shape...))
	if err != nil {
		return nil
	}
	return windowWords(windowed, geo.Kernel, geo.Stride, geo.PadBegin, geo.PadEnd, geo.Dilation, geo.OutputPadding, geo.Group)
}

func askedPool(g *graph.Graph, n *graph.Node) []string {
	geo, err := graph.PoolGeometry(n, g.Value(n.Inputs[0]).Shape)
	if err != nil {
		return nil
	}
	average := n.Op == "AveragePool"
	return words("pool", "average", average, "global", false, "kernel_shape", geo.Kernel, "strides", geo.Stride,
		"pads", slices.Concat(geo.PadBegin, geo.PadEnd),
		"output", geo.Out, "count_include_pad", countsPadding(n, geo))
}

func askedReduction(g *graph.Graph, n *graph.Node, x []int) []string {
	axes := n.AttrInts("axes")
	if t := g.Const(n.Input(1)); t != nil {
		axes = passes.Integers(t)
	}
	list := []int{}
	for a := range x {
		whole := len(axes) == 0 || slices.ContainsFunc(axes, func(k int64) bool { at, _ := graph.Axis(int(k), len(x)); return at == a })
		if whole && !(batched(x) && a == 0) {
			list = append(list, innerAxis(a, x))
		}
	}
	if len(list) == 0 {
		return nil // of a batch of 1 alone: nothing is computed
	}
	return words("reduction", "op", n.Op, "axes", list)
}

func askedBinary(g *graph.Graph, n *graph.Node) []string {
	op := n.Op
	for i, v := range n.Inputs {
		t := g.Const(v)
		if t == nil || t.Len() != 1 || t.DType != tensor.Float32 || len(t.Shape) > len(g.Value(n.Inputs[1-i]).Shape) {
			continue
		}
		if i == 0 && (op == "Sub" || op == "Div") {
			op += " turned"
		}
		return words("binary", "op", op, "with", t.F32()[0])
	}
	return words("binary", "op", op)
}

// askedOrder is the order of the axes that ncnn has, by their places in the input.
func askedOrder(n *graph.Node, x []int) []string {
	perm := n.AttrInts("perm")
	list := []int{}
	for i := range x {
		from := len(x) - 1 - i
		if perm != nil {
			from = int(perm[i])
		}
		if !(batched(x) && from == 0) {
			list = append(list, innerAxis(from, x))
		}
	}
	return words("order", "axes", list)
}

// askedCrop is what a Slice leaves of the axes that it names, but for a batch of 1.
func askedCrop(g *graph.Graph, n *graph.Node, x []int) []string {
	var lists [3][]int64 // starts, ends, axes
	for i, name := range []string{"starts", "ends", "axes"} {
		if lists[i] = n.AttrInts(name); g.Const(n.Input(i+1)) != nil {
			lists[i] = passes.Integers(g.Const(n.Input(i + 1)))
		}
	}
	from, to, axes := []int{}, []int{}, []int{}
	for i := range lists[0] {
		axis := i
		if lists[2] != nil {
			axis, _ = graph.Axis(int(lists[2][i]), len(x))
		}
		ends := [2]int64{lists[0][i], lists[1][i]}
		for k := range ends {
			if ends[k] < 0 {
				ends[k] += int64(x[axis])
			}
			ends[k] = min(max(ends[k], 0), int64(x[axis]))
		}
		if !(batched(x) && axis == 0) {
			from, to, axes = append(from, int(ends[0])), append(to, int(ends[1])), append(axes, innerAxis(axis, x))
		}
	}
	return words("crop", "from", from, "to", to, "axes", axes)
}

func askedPads(g *graph.Graph, n *graph.Node, x []int) []string {
	p := n.Pad()
	if t := g.Const(n.Input(1)); t != nil {
		p.Pads = passes.Integers(t)
	}
	if t := g.Const(n.Input(2)); t != nil && t.DType == tensor.Float32 && t.Len() == 1 {
		p.Value = t.F32()[0]
	}
	if len(p.Pads) != 2*len(x) {
		return nil
	}
	off := truth(batched(x))
	return words("pad", "begin", p.Pads[off:len(x)], "end", p.Pads[len(x)+off:], "mode", p.Mode, "value", p.Value)
}
