package graph

import (
	"fmt"
	"slices"
)

// Check verifies the invariants of the graph: ids in range, names unique, one definition per value, uses equal to what the
// nodes read, no cycle. Passes are checked with it in tests and after every pass of a debug build.
func (g *Graph) Check() error {
	reads := make([]int, len(g.values))
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.dead {
			continue
		}
		if n.ID != NodeID(i) {
			return fmt.Errorf("node %q: id %d at %d", n.Name, n.ID, i)
		}
		if id, known := g.nodeByName[n.Name]; n.Name == "" || !known || id != n.ID {
			return fmt.Errorf("node %d (%s): name %q is empty, taken or was not set by RenameNode", i, n.Op, n.Name)
		}
		if n.hasSubgraphs() && !slices.Contains(g.withGraphs, n.ID) {
			return fmt.Errorf("node %q: subgraphs were set after the node was added", n.Name)
		}
		for k, v := range n.Inputs {
			if v == NoValue {
				continue
			}
			if err := g.live(v); err != nil {
				return fmt.Errorf("node %q input %d: %w", n.Name, k, err)
			}
			if !containsUse(g.values[v].uses, Use{n.ID, k}) {
				return fmt.Errorf("node %q input %d: value %q does not know this use", n.Name, k, g.values[v].Name)
			}
			reads[v]++
		}
		for k, v := range n.Outputs {
			if v == NoValue {
				continue
			}
			if err := g.live(v); err != nil {
				return fmt.Errorf("node %q output %d: %w", n.Name, k, err)
			}
			if g.values[v].producer != n.ID {
				return fmt.Errorf("node %q output %d: value %q has another producer", n.Name, k, g.values[v].Name)
			}
		}
	}
	for i := range g.values {
		v := &g.values[i]
		if v.dead {
			continue
		}
		if v.ID != ValueID(i) || g.byName[v.Name] != v.ID {
			return fmt.Errorf("value %q: id %d at %d, by name %d", v.Name, v.ID, i, g.byName[v.Name])
		}
		if len(v.uses) != reads[i] {
			return fmt.Errorf("value %q: %d uses recorded, %d found", v.Name, len(v.uses), reads[i])
		}
		if v.producer != NoNode && (v.Const != nil || g.IsInput(v.ID)) {
			return fmt.Errorf("value %q is defined twice", v.Name)
		}
		if v.producer == NoNode && v.Const == nil && !v.Outer && !g.IsInput(v.ID) && (reads[i] > 0 || g.IsOutput(v.ID)) {
			return fmt.Errorf("value %q is read but never computed", v.Name)
		}
	}
	for _, v := range append(append([]ValueID(nil), g.Inputs...), g.Outputs...) {
		if err := g.live(v); err != nil {
			return fmt.Errorf("graph inputs and outputs: %w", err)
		}
	}
	_, err := g.Order()
	return err
}

func (g *Graph) live(v ValueID) error {
	if v < 0 || int(v) >= len(g.values) {
		return fmt.Errorf("value id %d out of range", v)
	}
	if g.values[v].dead {
		return fmt.Errorf("value %q was removed", g.values[v].Name)
	}
	return nil
}

func containsUse(list []Use, u Use) bool {
	for _, x := range list {
		if x == u {
			return true
		}
	}
	return false
}
