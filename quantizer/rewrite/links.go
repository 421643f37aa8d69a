package rewrite

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// link says that channel j of value b, along its axis, is channel of[j] of value a: a factor of the one is a factor of the other.
type link struct {
	a, b         graph.ValueID
	aAxis, bAxis int
	of           []int
}

// dim is the size of a value along an axis, -1 if it is not known.
func dim(g *graph.Graph, v graph.ValueID, axis int) int {
	s := g.Value(v).Shape
	if axis < 0 || axis >= len(s) || !s[axis].Known() {
		return -1
	}
	return int(s[axis].N)
}

// iota counts from lo to below hi.
func iota(lo, hi int) []int {
	list := make([]int, 0, max(hi-lo, 0))
	for i := lo; i < hi; i++ {
		list = append(list, i)
	}
	return list
}

// same links two values channel by channel.
func same(g *graph.Graph, a graph.ValueID, aAxis int, b graph.ValueID, bAxis int) ([]link, error) {
	n := dim(g, a, aAxis)
	if n < 0 || n != dim(g, b, bAxis) {
		return nil, fmt.Errorf("%q and %q have other numbers of channels", g.Value(a).Name, g.Value(b).Name)
	}
	return []link{{a, b, aAxis, bAxis, iota(0, n)}}, nil
}

// homogeneous are the operators of one data input with f(s x) = s f(x) for s > 0, element by element or within one channel, axes kept.
var homogeneous = map[string]bool{"Relu": true, "LeakyRelu": true, "PRelu": true, "Identity": true, "Dropout": true,
	"Abs": true, "Neg": true,
	"MaxPool": true, "AveragePool": true, "LpPool": true, "GlobalAveragePool": true, "GlobalMaxPool": true, "GlobalLpPool": true}

// shapeOnly are the operators that read a value for its shape alone.
var shapeOnly = map[string]bool{"Shape": true, "Size": true}

// linksOf lists how the channels of value v, along axis, go through a node that reads or computes it. nil without an error: none do.
func (w *walker) linksOf(n *graph.Node, v graph.ValueID, axis int) ([]link, error) {
	g := w.g
	if !n.IsONNX() {
		return nil, fmt.Errorf("%s is not known to keep factors", n.Op)
	}
	x, y := n.Input(0), n.Output(0)
	isData := v == x || v == y
	switch {
	case shapeOnly[n.Op]:
		return nil, nil
	case n.Reshapes() && isData:
		return reshape(g, n, v, axis)
	case homogeneous[n.Op] && isData && !(n.Op == "PRelu" && v == n.Input(1)):
		return same(g, x, axis, y, axis)
	case n.Op == "Clip" && isData:
		if _, _, err := zeroClip(g, n); err != nil {
			return nil, err
		}
		return same(g, x, axis, y, axis)
	}
	switch n.Op {
	case "Add", "Sub", "Sum", "Mean", "Max", "Min":
		return w.together(n, axis, v)
	case "Mul", "Div":
		return w.product(n, axis, v)
	case "Concat":
		return concat(g, n, axis)
	case "Split":
		return split(g, n, axis)
	case "Slice":
		return slice(g, n, axis)
	case "Transpose":
		return transpose(g, n, v, axis)
	case "MatMul": // over another axis
		if data := slices.IndexFunc(n.Inputs, func(x graph.ValueID) bool { return g.Const(x) == nil }); data >= 0 &&
			g.Const(n.Input(1-data)) != nil {
			return same(g, n.Inputs[data], axis, y, axis)
		}
	case "Pad":
		return pad(g, n, v, axis)
	case "Resize", "Upsample":
		if !isData {
			break
		}
		if m := n.AttrStr("coordinate_transformation_mode", ""); m == "tf_crop_and_resize" {
			return nil, fmt.Errorf("%s writes a value of its own outside", n.Op)
		}
		return same(g, x, axis, y, axis)
	case "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2":
		return reduce(g, n, v, axis)
	}
	return nil, fmt.Errorf("%s does not keep a factor of each channel", n.Op)
}

// aligned is the axis of an operand that meets axis of the result in a broadcast; -1 if it has none.
func aligned(g *graph.Graph, operand, result graph.ValueID, axis int) int {
	return axis - len(g.Value(result).Shape) + len(g.Value(operand).Shape)
}

// resultAxis is the axis of an elementwise operator's result that lies where axis of v does, one of its operands or the result.
func resultAxis(g *graph.Graph, n *graph.Node, axis int, v graph.ValueID) (int, error) {
	if _, by := n.AlignsByAttribute(g.Opset("")); by {
		return 0, fmt.Errorf("%s broadcasts by an attribute", n.Op)
	}
	return aligned(g, n.Output(0), v, axis), nil
}

// together links all operands of a sum, maximum or minimum: they need the same factor. Constants are left to bounds.
func (w *walker) together(n *graph.Node, axis int, v graph.ValueID) ([]link, error) {
	g, y := w.g, n.Output(0)
	axis, err := resultAxis(g, n, axis, v)
	if err != nil {
		return nil, err
	}
	var list []link
	for _, x := range n.Inputs {
		if g.Const(x) != nil {
			continue
		}
		l, err := same(g, x, aligned(g, x, y, axis), y, axis)
		if err != nil {
			return nil, err
		}
		list = append(list, l...)
	}
	return list, nil
}

// product links the one operand of a Mul or the numerator of a Div that carries the factor.
func (w *walker) product(n *graph.Node, axis int, v graph.ValueID) ([]link, error) {
	g, y := w.g, n.Output(0)
	axis, err := resultAxis(g, n, axis, v)
	if err != nil {
		return nil, err
	}
	at, chosen := w.operand[n.ID]
	if !chosen {
		switch {
		case v == n.Input(0) && v == n.Input(1):
			return nil, fmt.Errorf("a square does not keep a factor")
		case v != y:
			at = slices.Index(n.Inputs, v)
		case n.Op == "Div" || g.Const(n.Input(1)) != nil:
		case g.Const(n.Input(0)) != nil:
			at = 1
		case g.Value(n.Input(0)).Shape.Equal(g.Value(y).Shape) && !g.Value(n.Input(1)).Shape.Equal(g.Value(y).Shape):
		case g.Value(n.Input(1)).Shape.Equal(g.Value(y).Shape) && !g.Value(n.Input(0)).Shape.Equal(g.Value(y).Shape):
			at = 1
		default:
			return nil, fmt.Errorf("either factor of the product could carry it")
		}
		w.operand[n.ID] = at
	}
	x := n.Input(at)
	if v != x && v != y || n.Op == "Div" && at != 0 {
		return nil, fmt.Errorf("both operands of %s would carry a factor", n.Op)
	}
	return same(g, x, aligned(g, x, y, axis), y, axis)
}
