package graph

var softmaxOps = []OpSpec{
	softmax("Softmax", "exp(x) / sum of exp(x) along an axis"),
	softmax("LogSoftmax", "logarithm of Softmax"),
	softmax("Hardmax", "1 at the first largest element along an axis, else 0"),
}

func softmax(name, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: 1, Kind: KindSoftmax, MinIn: 1, Infer: inferSoftmax}
}

func inferSoftmax(c *InferCtx) error {
	c.SetOut(0, c.DType(0), c.Shape(0))
	if x := c.Shape(0); x != nil {
		_, _, err := SoftmaxAxes(c.Node, c.Opset, len(x))
		return err
	}
	return nil
}

// SoftmaxAxis returns the axis of a Softmax, LogSoftmax or Hardmax as it stands in the file; flat: all axes from it on are one,
// as before opset 13.
func SoftmaxAxis(n *Node, opset int64) (axis int, flat bool) {
	if opset >= 13 || opset == 0 {
		return n.Axis(), false
	}
	return int(n.AttrInt("axis", 1)), true
}

// SoftmaxAxes returns the axes [from,to) over which the elements of a Softmax, LogSoftmax or Hardmax of the given rank sum to
// 1: one axis, the last by default, and before opset 13 all axes from axis on, 1 by default.
func SoftmaxAxes(n *Node, opset int64, rank int) (from, to int, err error) {
	axis, flat := SoftmaxAxis(n, opset)
	if flat && axis == rank {
		return rank, rank, nil // each element alone
	}
	if from, err = normAxis(axis, rank); flat {
		return from, rank, err
	}
	return from, from + 1, err
}
