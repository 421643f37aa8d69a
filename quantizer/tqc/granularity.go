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
		if spec := n.Spec(); spec != nil && spec.Sums != nil {
			return fmt.Errorf("%s scales need a tensor of known rank", c.Policy)
		}
		return nil
	}
	rank := len(shape)
	axis, ok := graph.Axis(c.Axis, rank)
	if !ok {
		return fmt.Errorf("scales along axis %d of a tensor of rank %d", c.Axis, rank)
	}
	if c.Policy.Has(PerToken) {
		for axis = range rank - 1 {
			if g.Sums(n, i, axis, rank) {
				return fmt.Errorf("%s sums along axis %d of %s, along which scales of tokens vary", n.Op, axis, shape)
			}
		}
		return nil
	}
	if c.Policy.Has(PerGroup) || !g.Sums(n, i, axis, rank) {
		return nil
	}
	return fmt.Errorf("scales vary along axis %d of %s, along which %s sums: they cannot be taken out of the sum", axis, shape, n.Op)
}
