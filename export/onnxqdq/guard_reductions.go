package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
)

// sums are the reductions that the transformations take for such along axes without scales. ReduceMean is not one of them: a Max in front
// of it would part it from a LayerNormalization.
var sums = []string{"ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd"}

// reductions are all operators that take axes away, but for sums, and that scales are moved behind.
var reductions = []string{"ReduceMean", "ReduceMax", "ReduceMin", "GlobalAveragePool", "GlobalMaxPool"}

// threeAxes reports whether a reduction of a tensor of three axes, the first of which may have more than one element, leaves that one and
// takes that axis away: 2026.4 then adds up other codes along the middle (NSR 0.1 to 1), and scales channels that no bias is added to by
// those of others (NSR 0.05 to 0.7).
func threeAxes(g *graph.Graph, n *graph.Node, axis int) bool {
	shape := g.Value(n.Inputs[0]).Shape
	if len(shape) != 3 || shape[0].Known() && shape[0].N == 1 {
		return false
	}
	if is(n, "GlobalAveragePool", "GlobalMaxPool") {
		return axis == 2
	}
	axes, err := g.ReducedAxes(n, len(shape))
	return err == nil && slices.Contains(axes, axis) && !slices.Contains(axes, 0)
}

// moreSamples reports whether a reduction adds up the last of three axes of what has a zero point, where there may be more samples than
// channels: 2026.4 takes the zero points of others then (NSR 0.01 to 100). What a Sub reads beside it is a normalization there.
func moreSamples(g *graph.Graph, n *graph.Node) bool {
	shape, dq := g.Value(n.Inputs[0]).Shape, dequantizes(g, n.Inputs[0])
	if dq == nil || !hasZeroPoint(g, dq) || !threeAxes(g, n, 2) || readBehind(g, n.Outputs[0], -1, "Sub") {
		return false
	}
	return !shape[0].Known() || !shape[1].Known() || shape[0].N > shape[1].N
}

// affine says what constants do to a tensor that is as it is handed on: 2026.4 takes factors of float tensors, too, for what a pair
// dequantizes, and moves them, with what is added behind them, behind operators.
func affine(g *graph.Graph, v graph.ValueID) (scaled, channels, shifted bool) {
	for v != graph.NoValue && g.Producer(v) != graph.NoNode {
		p := g.Node(g.Producer(v))
		if is(p, "InstanceNormalization", "BatchNormalization") {
			return true, true, true
		}
		if _, through := carriers[p.Op]; !through {
			break
		}
		i := -1
		if is(p, "Add", "Sub", "Mul", "Div") {
			i = slices.IndexFunc(p.Inputs, func(v graph.ValueID) bool { return g.Const(v) != nil })
		}
		switch {
		case i < 0:
			v = p.Input(0)
		case is(p, "Mul", "Div"):
			c := g.Const(p.Inputs[i])
			return true, c.Len() > 1 && c.Shape[len(c.Shape)-1] == 1, shifted
		default:
			v, shifted = p.Inputs[1-i], true
		}
	}
	return false, false, false
}

// scaledChannels reports whether a reduction takes an axis away of three that have several samples, of channels that a constant multiplied:
// 2026.4 moves the factors to other channels (NSR 0.07 to 2).
func scaledChannels(g *graph.Graph, n *graph.Node) bool {
	if shape := g.Value(n.Inputs[0]).Shape; len(shape) != 3 || shape[0].Known() && shape[0].N == 1 {
		return false
	}
	_, channels, _ := affine(g, n.Inputs[0])
	return channels
}

// shiftedPads reports whether an average counts padding of what a constant multiplied and another was added to: 2026.4 adds that behind it,
// to the padding too (NSR 0.02 to 0.5).
func shiftedPads(g *graph.Graph, n *graph.Node) bool {
	scaled, _, shifted := affine(g, n.Inputs[0])
	return scaled && shifted && !target.UncountedPads.Holds(g, n)
}

// severalAxes reports whether a reduction takes more than one axis away.
func severalAxes(g *graph.Graph, n *graph.Node) bool {
	if c := g.Const(n.Input(1)); c != nil {
		return c.Len() != 1
	}
	return len(n.AttrInts("axes")) != 1
}
