package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Order returns the live nodes in the canonical order of execution: depth first from the graph outputs, along the inputs of
// each node; then the nodes that no output depends on, by the name of their first output. The order depends only on structure
// and names, not on the order in which nodes are stored. A cycle is an error that names one of its nodes.
func (g *Graph) Order() ([]NodeID, error) {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(g.nodes))
	order := make([]NodeID, 0, len(g.nodes))
	type frame struct {
		node NodeID
		next int
		deps []ValueID
	}
	visit := func(root NodeID) error {
		if root == NoNode || state[root] != unseen {
			return nil
		}
		stack := []frame{{node: root, deps: g.dependencies(root)}}
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(f.deps) {
				state[f.node] = done
				order = append(order, f.node)
				stack = stack[:len(stack)-1]
				continue
			}
			p := g.Producer(f.deps[f.next])
			f.next++
			if p == NoNode {
				continue
			}
			switch state[p] {
			case open:
				return fmt.Errorf("graph has a cycle through node %q (%s)", g.nodes[p].Name, g.nodes[p].Op)
			case unseen:
				state[p] = open
				stack = append(stack, frame{node: p, deps: g.dependencies(p)})
			}
		}
		return nil
	}
	for _, v := range g.Outputs {
		if err := visit(g.Producer(v)); err != nil {
			return nil, err
		}
	}
	var rest []NodeID
	for i := range g.nodes {
		if !g.nodes[i].dead && state[i] == unseen {
			rest = append(rest, NodeID(i))
		}
	}
	slices.SortFunc(rest, func(a, b NodeID) int { return strings.Compare(g.sortKey(a), g.sortKey(b)) })
	for _, id := range rest {
		if err := visit(id); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// dependencies are the values a node needs: its inputs and what its subgraphs capture.
func (g *Graph) dependencies(id NodeID) []ValueID {
	n := &g.nodes[id]
	deps := n.Inputs
	for _, name := range n.CapturedNames() {
		if v, ok := g.byName[name]; ok {
			deps = append(deps[:len(deps):len(deps)], v)
		}
	}
	return deps
}

// CapturedNames lists the names that the subgraphs of the node read from the graphs around them, by subgraph and sorted.
func (n *Node) CapturedNames() []string {
	var names []string
	for _, sub := range n.Subgraphs() {
		names = append(names, sub.CapturedNames()...)
	}
	return names
}

// CapturedNames lists the names that this subgraph and the subgraphs in it read from enclosing graphs, sorted.
func (g *Graph) CapturedNames() []string {
	set := map[string]bool{}
	for i := range g.values {
		if g.values[i].Outer && !g.values[i].dead {
			set[g.values[i].Name] = true
		}
	}
	for i := range g.nodes {
		for _, sub := range g.nodes[i].Subgraphs() {
			for _, name := range sub.CapturedNames() {
				if _, own := g.byName[name]; !own {
					set[name] = true
				}
			}
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (g *Graph) sortKey(id NodeID) string {
	for _, v := range g.nodes[id].Outputs {
		if v != NoValue {
			return g.values[v].Name
		}
	}
	return g.nodes[id].Name
}

// Shuffle reorders the storage of nodes by perm, a permutation of [0,NumNodes): the node at i moves to perm[i]. What the
// graph computes does not change; tests use it to show that nothing depends on storage order.
func (g *Graph) Shuffle(perm []int) {
	nodes := make([]Node, len(g.nodes))
	for i := range g.nodes {
		nodes[perm[i]] = g.nodes[i]
		nodes[perm[i]].ID = NodeID(perm[i])
	}
	g.nodes = nodes
	for name, id := range g.nodeByName {
		g.nodeByName[name] = NodeID(perm[id])
	}
	for i, id := range g.withGraphs {
		g.withGraphs[i] = NodeID(perm[id])
	}
	for i := range g.values {
		v := &g.values[i]
		if v.producer != NoNode {
			v.producer = NodeID(perm[v.producer])
		}
		for k := range v.uses {
			v.uses[k].Node = NodeID(perm[v.uses[k].Node])
		}
		slices.SortFunc(v.uses, func(a, b Use) int {
			if a.Node != b.Node {
				return int(a.Node - b.Node)
			}
			return a.Index - b.Index
		})
	}
}
