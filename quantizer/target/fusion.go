package target

import (
	"qwb/graph"
	"qwb/graph/pattern"
)

// Fusion is a group of operators that the target computes as one. Tensors inside the group do not exist there, so they are
// never quantized.
type Fusion struct {
	Family *pattern.Family
	// Island: the group is a float kernel and stays float as a whole. Otherwise it is an activation: it is computed together
	// with the weighted operator before it, and stays float where there is none.
	Island bool
}

// Unit is one match of a Fusion in a graph.
type Unit struct {
	Fusion *Fusion
	Nodes  []graph.NodeID // the last computes the result
	Input  graph.ValueID  // of an activation: the one tensor it reads; NoValue if it reads several
}

// Units finds the fusions of t in g. They are disjoint.
func (t *Target) Units(g *graph.Graph) []Unit {
	var families []*pattern.Family
	for i := range t.Fusions {
		families = append(families, t.Fusions[i].Family)
	}
	var units []Unit
	for _, f := range pattern.Cover(g, families...) {
		u := Unit{Nodes: f.Nodes, Input: graph.NoValue}
		for i := range t.Fusions {
			if t.Fusions[i].Family == f.Family {
				u.Fusion = &t.Fusions[i]
			}
		}
		if !u.Fusion.Island {
			u.Input = f.Value("x")
		}
		units = append(units, u)
	}
	return units
}

// Inside reports whether nothing but the nodes of u reads v.
func (u *Unit) Inside(g *graph.Graph, v graph.ValueID) bool {
	if v == graph.NoValue || g.IsOutput(v) || g.Captured(v) {
		return false
	}
	for _, use := range g.Uses(v) {
		if !u.has(use.Node) {
			return false
		}
	}
	return true
}

func (u *Unit) has(id graph.NodeID) bool {
	for _, n := range u.Nodes {
		if n == id {
			return true
		}
	}
	return false
}
