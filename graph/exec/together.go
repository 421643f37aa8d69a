package exec

import (
	"slices"

	"qwb/graph"
	"qwb/kernels"
)

// together returns an order of execution in which matrix products and convolutions that read one value follow each other: what
// they read besides are constants, so that they may be computed as soon as the first of them is.
func together(g *graph.Graph, order []graph.NodeID) []graph.NodeID {
	readers := map[graph.ValueID][]graph.NodeID{}
	for _, id := range order {
		if n := g.Node(id); shares(g, n) {
			readers[n.Inputs[0]] = append(readers[n.Inputs[0]], id)
		}
	}
	moved := make([]bool, g.NumNodes())
	out := make([]graph.NodeID, 0, len(order))
	for _, id := range order {
		if moved[id] {
			continue
		}
		if n := g.Node(id); !shares(g, n) {
			out = append(out, id)
			continue
		}
		n := g.Node(id)
		for _, other := range readers[n.Inputs[0]] {
			if g.Node(other).Op == n.Op && !moved[other] {
				moved[other] = true
				out = append(out, other)
			}
		}
	}
	return out
}

// shares reports whether a node may be computed together with others that read its first input: a product by constant weights.
func shares(g *graph.Graph, n *graph.Node) bool {
	if !n.IsONNX() || !slices.Contains([]string{"Conv", "Gemm", "MatMul"}, n.Op) || len(n.Inputs) < 2 || g.Const(n.Inputs[0]) != nil {
		return false
	}
	for _, v := range n.Inputs[1:] {
		if v != graph.NoValue && g.Const(v) == nil {
			return false
		}
	}
	return true
}

// findTogether marks the steps whose neighbour reads what they read.
func (s *sessionState) findTogether() {
	for i := 1; i < len(s.steps); i++ {
		a, b := s.steps[i-1].node, s.steps[i].node
		s.steps[i-1].more = a.Op == b.Op && shares(s.g, a) && shares(s.g, b) && a.Inputs[0] == b.Inputs[0]
	}
}

// waits reports whether the product of this node, which ends in ep, waits for those of the steps behind it, to be computed as one.
// It does not where somebody looks at a step, at its input or at its result, or where only part of the graph is run. What it adds
// may be the result of one that waits: then those are computed first. So every product asks before it runs.
func (c *call) waits(ep kernels.Epilogue) bool {
	r := c.run
	if ep.Add != nil || len(r.stages) > 0 {
		r.batch.Run(r.s.par)
	}
	if !c.step.more && r.batch.Len() == 0 {
		return false
	}
	v := c.node.Outputs[0]
	return !c.swapped[0] && ep.Done == nil && !r.watched[v] && !r.looks[v] && r.mem.pool == nil && (r.hooks == nil || r.hooks.Step == nil)
}

// flush computes the products that wait, unless the next step's belongs to them.
func (c *call) flush() {
	if c.run.batch.Len() > 0 && !c.step.more {
		c.run.batch.Run(c.run.s.par)
	}
}
