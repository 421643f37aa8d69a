package graph

// OutAxis returns the axis of a node's weight, input WeightInput of the given rank, along which its output channels lie (of a
// ConvTranspose: those of one group), and false for operators without a weight and ranks that they do not have.
// Of a MatMul by a stack of matrices it is the last.
func OutAxis(n *Node, rank int) (axis int, ok bool) {
	s := n.Spec()
	if s == nil || s.OutAxis == nil || rank < 2 {
		return 0, false
	}
	return s.OutAxis(n, rank)
}

// InAxis returns the axis of input i, DataInput or WeightInput of the given rank, along which the channels lie that a node with a weight
// sums over, of a weight those of one group; false for other operators and inputs, and where the rank does not tell.
func InAxis(n *Node, i, rank int) (axis int, ok bool) {
	s := n.Spec()
	if s == nil || s.InAxis == nil || i > WeightInput {
		return 0, false
	}
	return s.InAxis(n, i, rank)
}

// Sums reports whether a node sums products along an axis of its input i, a tensor of the given rank: scales that vary along it cannot be
// taken out of the sum. Inputs that are not part of a sum of products (the bias) have no such axis.
func (g *Graph) Sums(n *Node, i, axis, rank int) bool {
	s := n.Spec()
	return s != nil && s.Sums != nil && s.Sums(g, n, i, axis, rank)
}

func convOut(*Node, int) (int, bool)          { return 0, true }
func convTransposeOut(*Node, int) (int, bool) { return 1, true }
func matmulOut(_ *Node, rank int) (int, bool) { return rank - 1, true }

func gemmOut(n *Node, rank int) (int, bool) {
	if n.Gemm().TransB {
		return 0, rank == 2
	}
	return 1, rank == 2
}

func convSums(g *Graph, n *Node, i, axis, _ int) bool {
	switch i {
	case DataInput: // N, C, spatial
		return axis == 1 && !g.depthwise(n) || axis > 1
	case WeightInput: // M, C/group, kernel
		return axis >= 1
	}
	return false
}

func convTransposeSums(g *Graph, n *Node, i, axis, _ int) bool {
	switch i {
	case DataInput:
		return axis == 1 && !g.depthwise(n) || axis > 1
	case WeightInput: // C, M/group, kernel
		return axis == 0 && !g.depthwise(n) || axis > 1
	}
	return false
}

// Of convolutions the channels of the data, and those of one group of the weight, are on axis 1 but for the weight C,
// M/group of a ConvTranspose.
func convIn(n *Node, i, _ int) (int, bool) {
	if i == WeightInput && n.Conv().Transposed {
		return 0, true
	}
	return 1, true
}

func gemmIn(n *Node, i, rank int) (int, bool) {
	g := n.Gemm()
	switch {
	case i == DataInput && g.TransA || i == WeightInput && !g.TransB:
		return 0, true
	case i == DataInput:
		return rank - 1, rank > 1
	}
	return 1, true
}

func matmulIn(_ *Node, i, rank int) (int, bool) { return max(rank-1-i, 0), rank > 0 }

// rowSums is Sums of operators that sum over one axis of each factor.
func rowSums(in func(n *Node, i, rank int) (int, bool)) func(*Graph, *Node, int, int, int) bool {
	return func(_ *Graph, n *Node, i, axis, rank int) bool {
		at, ok := in(n, i, rank)
		return ok && i <= WeightInput && axis == at
	}
}

func spatialSums(_ *Graph, _ *Node, _, axis, _ int) bool { return axis >= 2 }

// depthwise reports whether every output channel of a convolution reads one input channel only.
func (g *Graph) depthwise(n *Node) bool {
	w := n.Input(WeightInput)
	if w == NoValue || len(g.values[w].Shape) < 2 {
		return false
	}
	s, c := g.values[w].Shape, n.Conv()
	if c.Transposed {
		return s[0].Known() && s[0].N == int64(c.Group) // C x M/group
	}
	return s[1].Known() && s[1].N == 1 && c.Group > 1 // M x C/group
}
