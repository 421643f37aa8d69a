package graph

import "fmt"

// Check verifies the invariants of the graph: ids in range, names unique, one definition per value, uses equal to what the
// nodes read, no cycle. Passes are checked with it in tests and after every pass of a debug build. It takes time linear in
// the size of the graph, because it also judges what was read from files.
func (g *Graph) Check() error {
	for _, v := range append(append([]ValueID(nil), g.Inputs...), g.Outputs...) {
		if err := g.live(v); err != nil {
			return fmt.Errorf("graph inputs and outputs: %w", err)
		}
	}
	t, err := g.checkUses()
	if err != nil {
		return err
	}
	for i := range g.nodes {
		if err := g.checkNode(&g.nodes[i], i, t); err != nil {
			return err
		}
	}
	for i := range g.values {
		if err := g.checkValue(&g.values[i], i, t); err != nil {
			return err
		}
	}
	_, err = g.Order()
	return err
}

// checkTables are the side tables of Check.
type checkTables struct {
	first         []int  // by node: where its inputs start in known
	known         []bool // by input of every node: the value lists this use
	withGraphs    []bool // by node
	input, output []bool // by value: among those of the graph
	computed      []bool // by value: found among a node's outputs
}

// checkUses looks from each value at the nodes that it says read it.
func (g *Graph) checkUses() (*checkTables, error) {
	t := &checkTables{first: make([]int, len(g.nodes)), withGraphs: make([]bool, len(g.nodes)),
		input: make([]bool, len(g.values)), output: make([]bool, len(g.values)), computed: make([]bool, len(g.values))}
	total := 0
	for i := range g.nodes {
		t.first[i] = total
		total += len(g.nodes[i].Inputs)
	}
	t.known = make([]bool, total)
	for _, id := range g.withGraphs {
		t.withGraphs[id] = true
	}
	for _, v := range g.Inputs {
		t.input[v] = true
	}
	for _, v := range g.Outputs {
		t.output[v] = true
	}
	for i := range g.values {
		v := &g.values[i]
		if v.dead {
			continue
		}
		for _, u := range v.uses {
			if !g.Alive(u.Node) || u.Index >= len(g.nodes[u.Node].Inputs) || g.nodes[u.Node].Inputs[u.Index] != v.ID {
				return nil, fmt.Errorf("value %q: node %d does not read it as input %d", v.Name, u.Node, u.Index)
			}
			at := t.first[u.Node] + u.Index
			if t.known[at] {
				return nil, fmt.Errorf("value %q: input %d of node %d is recorded twice", v.Name, u.Index, u.Node)
			}
			t.known[at] = true
		}
	}
	return t, nil
}

func (g *Graph) checkNode(n *Node, i int, t *checkTables) error {
	if n.dead {
		return nil
	}
	if n.ID != NodeID(i) {
		return fmt.Errorf("node %q: id %d at %d", n.Name, n.ID, i)
	}
	if id, known := g.nodeByName[n.Name]; n.Name == "" || !known || id != n.ID {
		return fmt.Errorf("node %d (%s): name %q is empty, taken or was not set by RenameNode", i, n.Op, n.Name)
	}
	if n.hasSubgraphs() && !t.withGraphs[i] {
		return fmt.Errorf("node %q: subgraphs were set after the node was added", n.Name)
	}
	for k, v := range n.Inputs {
		if v == NoValue {
			continue
		}
		if err := g.live(v); err != nil {
			return fmt.Errorf("node %q input %d: %w", n.Name, k, err)
		}
		if !t.known[t.first[i]+k] {
			return fmt.Errorf("node %q input %d: value %q does not know this use", n.Name, k, g.values[v].Name)
		}
	}
	for k, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		if err := g.live(v); err != nil {
			return fmt.Errorf("node %q output %d: %w", n.Name, k, err)
		}
		if g.values[v].producer != n.ID || t.computed[v] {
			return fmt.Errorf("node %q output %d: value %q has another producer", n.Name, k, g.values[v].Name)
		}
		t.computed[v] = true
	}
	return nil
}

func (g *Graph) checkValue(v *Value, i int, t *checkTables) error {
	if v.dead {
		return nil
	}
	if v.ID != ValueID(i) || g.byName[v.Name] != v.ID {
		return fmt.Errorf("value %q: id %d at %d, by name %d", v.Name, v.ID, i, g.byName[v.Name])
	}
	if (v.producer != NoNode) != t.computed[i] {
		return fmt.Errorf("value %q: its producer (node %d) does not compute it", v.Name, v.producer)
	}
	if v.producer != NoNode && (v.Const != nil || t.input[i]) {
		return fmt.Errorf("value %q is defined twice", v.Name)
	}
	if v.producer == NoNode && v.Const == nil && !v.Outer && !t.input[i] && (len(v.uses) > 0 || t.output[i]) {
		return fmt.Errorf("value %q is read but never computed", v.Name)
	}
	return nil
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
