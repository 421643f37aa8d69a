package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// joinedShifted reports whether a Sub takes a constant from what a Concat joined and a pair with a zero point rounded, an Add, Mul or Div
// puts one in float to it, or a Q rounds it again, at once or behind what leaves all elements in their places: the process ends when that
// is opened (2026.4).
func joinedShifted(g *graph.Graph, n *graph.Node) bool {
	v := n.Input(0)
	for v != graph.NoValue && g.Producer(v) != graph.NoNode {
		p := g.Node(g.Producer(v))
		if is(p, dequantizeLinear) {
			break
		}
		if !g.Passive(p.ID) || !slices.Equal(g.Value(p.Input(0)).Shape, g.Value(v).Shape) ||
			is(p, "Transpose") && !slices.IsSorted(p.AttrInts("perm")) {
			return false
		}
		v = p.Input(0)
	}
	switch {
	case is(n, "Sub") && constantIn(g, n.Input(1)) != nil, is(n, "Add", "Mul", "Div") && g.Const(n.Input(1)) != nil, is(n, quantizeLinear):
	default:
		return false
	}
	if v == graph.NoValue || !dequantized(g, v) || !hasZeroPoint(g, g.Node(g.Producer(v))) {
		return false
	}
	q := g.Node(g.Producer(v)).Inputs[0]
	return madeBy(g, q, quantizeLinear) && madeBy(g, g.Node(g.Producer(q)).Inputs[0], "Concat")
}

// joinedChannels reports whether a node reads channels that a Concat joined: what was joined gets a zero point for each channel, which
// 2026.4 keeps for the fewer channels behind a DepthToSpace, and for the other axes behind a Gather with another number of them ("Argument
// shapes are inconsistent", or an output of another shape).
func joinedChannels(g *graph.Graph, n *graph.Node) bool {
	for g.Producer(n.Inputs[0]) != graph.NoNode {
		n = g.Node(g.Producer(n.Inputs[0]))
		if is(n, "Concat") {
			axis, ok := graph.Axis(n.Axis(), len(g.Value(n.Outputs[0]).Shape))
			return ok && axis == 1
		}
		if !is(n, quantizeLinear, dequantizeLinear, "Identity", "Transpose", "MaxPool", "Resize", "Mul", "Div") {
			return false
		}
	}
	return false
}

// joinsSigned reports whether what a Concat joins is rounded to int8: 2026.4 makes integers of the numbers before it scales them then,
// where a convolution reads them.
func joinsSigned(g *graph.Graph, n *graph.Node) bool {
	return slices.ContainsFunc(g.Uses(n.Outputs[0]), func(u graph.Use) bool {
		return is(g.Node(u.Node), quantizeLinear) && g.Value(g.Node(u.Node).Outputs[0]).DType == tensor.Int8
	})
}

// joinsRows reports whether a Concat along another axis than the last reaches a product of matrices on integers with a zero point, whether
// it joins integers itself or not: what was joined gets a zero point for each part, which 2026.4 does not broadcast ("cannot be
// broadcasted").
func joinsRows(g *graph.Graph, n *graph.Node) bool {
	rank := len(g.Value(n.Outputs[0]).Shape)
	axis, ok := graph.Axis(n.Axis(), rank)
	known := map[graph.ValueID]carried{}
	return ok && axis != rank-1 && multiplied(g, n.Outputs[0], slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool {
		return carries(g, v, known).any || dequantized(g, v)
	}))
}
