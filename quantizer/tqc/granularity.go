package tqc

import (
	"fmt"

	"qwb/graph"
)

// CheckGranularity reports whether input i of a node may be quantized with c as far as the node's sums are concerned. A
// scale can be taken out of a sum only if it is the same for every term, so scales must not vary along an axis that the
// operator sums over:
//
//	sum over k of (s_x[k]*x[k]) * (s_w[k]*w[k])   has no integer form;   s_x*s_w * sum over k of x[k]*w[k]   has one.
//
// Two exceptions: a depthwise convolution does not sum over its channels, and per-group scales along a summed axis are
// allowed, because each group is summed by itself and the partial sums are scaled; the last group may be shorter. Scales of tokens vary
// along all axes but the last. Operators that do not sum pass.
func CheckGranularity(g *graph.Graph, node graph.NodeID, i int, c Config) error {
	if c.Policy.Has(PerTensor) {
		return nil
	}
	n := g.Node(node)
	v := n.Input(i)
	if v == graph.NoValue {
		return nil
	}
	shape := g.Value(v).Shape
	if shape == nil { // even the rank is unknown: nothing says that an axis is safe
		if _, sums := summedInputs[n.Op]; sums && n.Domain == "" {
			return fmt.Errorf("%s scales need a tensor of known rank", c.Policy)
		}
		return nil
	}
	axis, rank := c.Axis, len(shape)
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return fmt.Errorf("scales along axis %d of a tensor of rank %d", c.Axis, rank)
	}
	if c.Policy.Has(PerToken) {
		for axis = range rank - 1 {
			if sums(g, n, i, axis, rank) {
				return fmt.Errorf("%s sums along axis %d of %s, along which scales of tokens vary", n.Op, axis, shape)
			}
		}
		return nil
	}
	if c.Policy.Has(PerGroup) || !sums(g, n, i, axis, rank) {
		return nil
	}
	return fmt.Errorf("scales vary along axis %d of %s, along which %s sums: they cannot be taken out of the sum", axis, shape, n.Op)
}

// summedInputs says for the inputs of the operators that sum which axes they sum over; inputs that are not listed are not
// part of a sum of products (the bias).
var summedInputs = map[string]func(g *graph.Graph, n *graph.Node, i, axis, rank int) bool{
	"Conv": func(g *graph.Graph, n *graph.Node, i, axis, rank int) bool {
		switch i {
		case 0: // N, C, spatial
			return axis == 1 && !depthwise(g, n) || axis > 1
		case 1: // M, C/group, kernel
			return axis >= 1
		}
		return false
	},
	"ConvTranspose": func(g *graph.Graph, n *graph.Node, i, axis, rank int) bool {
		switch i {
		case 0:
			return axis == 1 && !depthwise(g, n) || axis > 1
		case 1: // C, M/group, kernel
			return axis == 0 && !depthwise(g, n) || axis > 1
		}
		return false
	},
	"Gemm": func(_ *graph.Graph, n *graph.Node, i, axis, _ int) bool {
		switch i {
		case 0:
			return (axis == 1) == (n.AttrInt("transA", 0) == 0)
		case 1:
			return (axis == 0) == (n.AttrInt("transB", 0) == 0)
		}
		return false
	},
	"MatMul": func(_ *graph.Graph, _ *graph.Node, i, axis, rank int) bool {
		if i == 0 {
			return axis == rank-1
		}
		return axis == max(rank-2, 0)
	},
	"AveragePool":       func(_ *graph.Graph, _ *graph.Node, _, axis, _ int) bool { return axis >= 2 },
	"GlobalAveragePool": func(_ *graph.Graph, _ *graph.Node, _, axis, _ int) bool { return axis >= 2 },
}

func sums(g *graph.Graph, n *graph.Node, i, axis, rank int) bool {
	f := summedInputs[n.Op]
	return f != nil && n.Domain == "" && f(g, n, i, axis, rank)
}

// depthwise reports whether every output channel of a convolution reads one input channel only.
func depthwise(g *graph.Graph, n *graph.Node) bool {
	w := n.Input(1)
	if w == graph.NoValue {
		return false
	}
	s := g.Value(w).Shape
	if len(s) < 2 {
		return false
	}
	group := n.AttrInt("group", 1)
	if n.Op == "ConvTranspose" {
		return s[0].Known() && s[0].N == group // C x M/group
	}
	return s[1].Known() && s[1].N == 1 && group > 1 // M x C/group
}
