package target

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// table is the row of the first operator of a function that becomes a table.
var table = Op{Type: "table", Role: Arithmetic}

// IsTable reports whether a node is the first of a function of one tensor, element by element, that the target computes as one table:
// see Target.Tables. Its constants are part of the table.
func (b *Bound) IsTable(id graph.NodeID) bool { return b.Ops[id] == &table }

// bindTables makes one operator of every chain of functions of one tensor: as many nodes as possible whose results, but for the last
// one's, nobody else needs. Chains may branch and join (x * sigmoid(x)). A single node keeps its own row where it has one, and what is
// computed together with a sum of products (Conv, Relu) stays with that.
func (b *Bound) bindTables() {
	g := b.Graph
	inside := b.insideTables()
	value := func(id graph.NodeID) graph.ValueID { return g.Node(id).Outputs[0] }
	at := func(v graph.ValueID) bool { p := g.Producer(v); return p != graph.NoNode && inside[p] }

	// kept are the tensors that exist as integers: what no node inside computes, and what is read outside or as the argument or the
	// result of more than one table. Everything that adds to them is found in rounds, each of which adds or is the last.
	kept := make([]bool, g.NumValues())
	for _, v := range g.Values() {
		kept[v] = !at(v) || g.IsOutput(v) || g.Captured(v)
	}
	argument, result := make([]graph.ValueID, g.NumValues()), make([]graph.ValueID, g.NumValues())
	for changed := true; changed; {
		changed = false
		keep := func(v graph.ValueID) {
			if !kept[v] {
				kept[v], changed = true, true
			}
		}
		for _, id := range b.Order {
			n := g.Node(id)
			of := graph.NoValue
			for _, v := range n.Inputs {
				if v == graph.NoValue || g.Const(v) != nil {
					continue
				}
				a := v
				if !kept[v] {
					a = argument[v]
				}
				if inside[id] && of != graph.NoValue && a != of { // a function of two tensors
					inside[id], changed = false, true
					keep(value(id))
				}
				of = a
			}
			if inside[id] {
				argument[value(id)] = of
				continue
			}
			for _, v := range n.Inputs {
				if v != graph.NoValue {
					keep(v)
				}
			}
		}
		for _, id := range slices.Backward(b.Order) {
			if !inside[id] {
				continue
			}
			v := value(id)
			if result[v] = v; kept[v] {
				continue
			}
			for i, u := range g.Uses(v) {
				r := result[value(u.Node)]
				if i > 0 && r != result[v] {
					keep(v)
					result[v] = v
					break
				}
				result[v] = r
			}
			if len(g.Uses(v)) == 0 {
				keep(v)
			}
		}
	}

	b.joinTables(inside, result)
}

// joinTables makes one operator of the nodes inside that have one result.
func (b *Bound) joinTables(inside []bool, result []graph.ValueID) {
	members := map[graph.ValueID][]graph.NodeID{} // by result, in order
	var results []graph.ValueID
	for _, id := range b.Order {
		if inside[id] {
			r := result[b.Graph.Node(id).Outputs[0]]
			if members[r] == nil {
				results = append(results, r)
			}
			members[r] = append(members[r], id)
		}
	}
	for _, r := range results {
		nodes := members[r]
		if len(nodes) == 1 && b.Ops[nodes[0]] != nil {
			continue
		}
		for i, id := range nodes {
			b.Ops[id], b.Reasons[id], b.Heads[id] = &table, "", graph.NoNode
			if i > 0 {
				b.Ops[id], b.Heads[id] = &activation, nodes[0]
			}
		}
	}
}

// insideTables says, by NodeID, which nodes may be part of a table: functions of single elements that nothing else claims.
func (b *Bound) insideTables() []bool {
	g := b.Graph
	inside := make([]bool, g.NumNodes())
	for _, id := range b.Order {
		inside[id] = g.Pointwise(id) && (b.Ops[id] == nil || b.Ops[id].FixedScale == 0)
	}
	for i := range b.Units { // a float kernel that is more than a function of single elements stays whole
		if u := &b.Units[i]; slices.ContainsFunc(u.Nodes, func(id graph.NodeID) bool { return !inside[id] }) {
			for _, id := range u.Nodes {
				inside[id] = false
			}
		}
	}
	for _, id := range b.Order { // heads stand before
		if h := b.Heads[id]; h != graph.NoNode && !inside[h] {
			inside[id] = false
		}
	}
	return inside
}

// validateTables reports what is wrong with Tables.
func (t *Target) validateTables() error {
	switch {
	case t.Tables != 0 && t.Tables != 8 && t.Tables != 16:
		return fmt.Errorf("tables of %d bits: 8 or 16", t.Tables)
	case t.Tables != 0 && !t.Placement.Outputs():
		return fmt.Errorf("tables give integers, and where quantizers stand %s no output has any", t.Placement)
	}
	return nil
}
