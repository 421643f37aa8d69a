package analysis

import (
	"slices"

	"qwb/graph"
)

// findRestarts finds what restarts read of the float activations, and which of them they compare their own with.
//
// A restart reads the inputs of the operator where it begins, and further on the inputs that do not depend on it of nodes that have
// others that do. So what a node reads that has one computed input and begins no restart need not be kept.
//
// A restart stops where what it computes equals what is kept. It is compared in front of operators that sum products, where a
// path divides, and at the graph outputs; not where the executor may compute a node together with its reader, which it does
// for values that nobody looks at.
func (a *analyzer) findRestarts() {
	a.reads = make([]bool, a.g.NumValues())
	compared := make([]bool, a.g.NumValues())
	for _, v := range a.g.Outputs {
		compared[v] = true
	}
	for _, s := range a.stages {
		compared[s.value] = true
	}
	for _, id := range a.order {
		n := a.g.Node(id)
		inputs := a.computed(n)
		begins := slices.ContainsFunc(a.groups, func(g group) bool { return g.node == id })
		spec := n.Spec()
		for _, v := range inputs {
			if begins || len(inputs) > 1 {
				a.reads[v] = true
			}
			if _, sole := a.g.SoleUse(v); !sole || spec == nil || spec.Kind == graph.KindComputing {
				compared[v] = true
			}
		}
	}
	for i := range a.groups {
		a.groups[i].between = a.between(&a.groups[i], compared)
	}
}

// computed lists the values that a node and its subgraphs read and that are no constants.
func (a *analyzer) computed(n *graph.Node) []graph.ValueID {
	var list []graph.ValueID
	add := func(v graph.ValueID) {
		if v != graph.NoValue && a.g.Const(v) == nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	for _, v := range n.Inputs {
		add(v)
	}
	for _, sub := range n.Subgraphs() {
		for _, name := range sub.CapturedNames() {
			if v, ok := a.g.Lookup(name); ok {
				add(v)
			}
		}
	}
	return list
}

// between lists the values that depend on a group and are not compared. Those inside the group are not, even where a path divides
// there (Swish): what is clipped or rounded at the group's output need not show before it.
func (a *analyzer) between(g *group, compared []bool) []graph.ValueID {
	depends := make([]bool, a.g.NumValues())
	var list []graph.ValueID
	for _, id := range a.order {
		n := a.g.Node(id)
		if id != g.node && !slices.ContainsFunc(a.computed(n), func(v graph.ValueID) bool { return depends[v] }) {
			continue
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			if depends[v] = true; !compared[v] || v != g.output && g.contains(id) {
				list = append(list, v)
			}
		}
	}
	return list
}
