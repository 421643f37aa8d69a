package dispatch

import (
	"qwb/graph"
	"qwb/quantizer/target"
)

// shapeNodes marks, by NodeID, the nodes that compute shapes and indices: everything downstream of Shape and Size whose computed
// inputs all are such, and everything upstream of an input that takes a shape or an index, as far as nothing else reads it.
// What depends on an operator with weights is data, whatever it is used for.
func shapeNodes(b *target.Bound) []bool {
	g := b.Graph
	soi := make([]bool, g.NumNodes())
	data := make([]bool, g.NumNodes()) // downstream of a weighted operator, along data
	for _, id := range b.Order {
		n := g.Node(id)
		if onlyShape(n) {
			soi[id] = true
			continue
		}
		if op := b.Op(n); op != nil && op.Role == target.Weighted {
			data[id] = true
			continue
		}
		computed := 0
		all := true
		for _, v := range n.Inputs {
			p := g.Producer(v)
			if v == graph.NoValue || g.Const(v) != nil {
				continue
			}
			computed++
			all = all && p != graph.NoNode && soi[p]
			data[id] = data[id] || p != graph.NoNode && data[p]
		}
		soi[id] = computed > 0 && all && len(n.Subgraphs()) == 0
	}
	for i := len(b.Order) - 1; i >= 0; i-- {
		id := b.Order[i]
		if !soi[id] && !data[id] {
			soi[id] = feedsShapes(b, id, soi)
		}
	}
	return soi
}

// feedsShapes reports whether the node's outputs are read, and only as shapes or by nodes that compute shapes.
func feedsShapes(b *target.Bound, id graph.NodeID, soi []bool) bool {
	g := b.Graph
	read := false
	for _, v := range g.Node(id).Outputs {
		if v == graph.NoValue {
			continue
		}
		if g.IsOutput(v) || g.Captured(v) {
			return false
		}
		for _, u := range g.Uses(v) {
			read = true
			if !soi[u.Node] && !target.ShapeInput(g, u.Node, u.Index) {
				return false
			}
		}
	}
	return read
}
