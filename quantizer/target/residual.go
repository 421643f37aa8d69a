package target

import "qwb/graph"

// Residuals finds the Adds that a target computes together with the convolution before them.
type Residuals struct {
	g     *graph.Graph
	t     *Target
	depth []int // by NodeID: the most weighted operators on any path that ends here
}

// NewResiduals looks at g once; order is g.Order().
func NewResiduals(g *graph.Graph, t *Target, order []graph.NodeID) *Residuals {
	r := &Residuals{g: g, t: t, depth: make([]int, g.NumNodes())}
	for _, id := range order {
		for _, v := range g.Node(id).Inputs {
			if p := g.Producer(v); p != graph.NoNode {
				r.depth[id] = max(r.depth[id], r.depth[p])
			}
		}
		if r.weighted(id) {
			r.depth[id]++
		}
	}
	return r
}

func (r *Residuals) weighted(id graph.NodeID) bool {
	op := r.t.Op(r.g.Node(id))
	return op != nil && op.Role == Weighted
}

// Branches returns which input of an Add is the main branch and which the skip branch. The main branch is the output of a
// weighted operator for which integer holds and that nothing else reads: the Add becomes part of that operator. Where both
// inputs are such, it is the one with more weighted operators behind it, and input 0 if they are equally deep. ok is false if
// the node is no Add of two computed tensors of one shape or has no main branch.
func (r *Residuals) Branches(id graph.NodeID, integer func(graph.NodeID) bool) (main, skip int, ok bool) {
	n := r.g.Node(id)
	if n.Op != "Add" || n.Domain != "" || len(n.Inputs) != 2 || n.Inputs[0] == n.Inputs[1] {
		return 0, 0, false
	}
	a, b := r.g.Value(n.Inputs[0]), r.g.Value(n.Inputs[1])
	if a.Const != nil || b.Const != nil {
		return 0, 0, false
	}
	if a.Shape != nil && b.Shape != nil && a.Shape.String() != b.Shape.String() {
		return 0, 0, false // broadcast
	}
	main = -1
	for i, v := range n.Inputs {
		p := r.g.Producer(v)
		if p == graph.NoNode || !r.weighted(p) || !integer(p) {
			continue
		}
		if _, sole := r.g.SoleUse(v); !sole {
			continue
		}
		if main < 0 || r.depth[p] > r.depth[r.g.Producer(n.Inputs[main])] {
			main = i
		}
	}
	return main, 1 - main, main >= 0
}
