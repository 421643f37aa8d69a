package onnxgo

import (
	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"

	"qwb/graph"
)

// The methods here are the reading half of gonum's directed graphs, which onnx-go asks of a backend. Edges lead from what an
// operator computes to what it reads.

// Node returns the value with a gonum id, nil if there is none.
func (b *Backend) Node(id int64) gonum.Node {
	if id < 0 || id >= int64(len(b.nodes)) {
		return nil
	}
	return b.nodes[id]
}

// Nodes returns all values.
func (b *Backend) Nodes() gonum.Nodes {
	list := make([]gonum.Node, len(b.nodes))
	for i, n := range b.nodes {
		list[i] = n
	}
	return iterator.NewOrderedNodes(list)
}

// From returns the values that the operator computing id reads.
func (b *Backend) From(id int64) gonum.Nodes {
	return b.filter(func(other *valueNode) bool { return b.HasEdgeFromTo(id, other.id) })
}

// To returns the values computed by operators that read id.
func (b *Backend) To(id int64) gonum.Nodes {
	return b.filter(func(other *valueNode) bool { return b.HasEdgeFromTo(other.id, id) })
}

// HasEdgeBetween reports whether an operator reads one of the two values and computes the other.
func (b *Backend) HasEdgeBetween(x, y int64) bool {
	return b.HasEdgeFromTo(x, y) || b.HasEdgeFromTo(y, x)
}

// HasEdgeFromTo reports whether the operator that computes u reads v.
func (b *Backend) HasEdgeFromTo(u, v int64) bool {
	if b.Node(u) == nil || b.Node(v) == nil || b.nodes[v].value == graph.NoValue {
		return false
	}
	op, ok := b.producer[b.nodes[u].value]
	if !ok {
		return false
	}
	for _, in := range b.ops[op].inputs {
		if in == b.nodes[v].value {
			return true
		}
	}
	return false
}

// Edge returns the edge from u to v, nil if there is none.
func (b *Backend) Edge(u, v int64) gonum.Edge {
	if !b.HasEdgeFromTo(u, v) {
		return nil
	}
	return simple.Edge{F: b.nodes[u], T: b.nodes[v]}
}

func (b *Backend) filter(keep func(*valueNode) bool) gonum.Nodes {
	var list []gonum.Node
	for _, n := range b.nodes {
		if keep(n) {
			list = append(list, n)
		}
	}
	return iterator.NewOrderedNodes(list)
}
