package target

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// Bound is a target applied to a graph: everything about the nodes that depends on these two alone. It is immutable.
type Bound struct {
	*Target
	Graph *graph.Graph
	Order []graph.NodeID
	Units []Unit
	// Ops holds per NodeID the row of the target's table, nil for nodes that stay float; Reasons then says why.
	Ops     []*Op
	Reasons []string
	// Heads holds per NodeID the node that an activation is computed together with, if both run on integers; else NoNode.
	Heads []graph.NodeID
	// Pieces says, by NodeID, why a node stays float that could run on integers, unless somebody decides otherwise; "" for most.
	// See findPieces.
	Pieces []string

	residuals *Residuals
}

// Bind looks at g with the eyes of t. It fails on a graph with a cycle.
func (t *Target) Bind(g *graph.Graph) (*Bound, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	n := g.NumNodes()
	b := &Bound{Target: t, Graph: g, Order: order, Units: t.Units(g), Ops: make([]*Op, n), Reasons: make([]string, n),
		Heads: make([]graph.NodeID, n), residuals: NewResiduals(g, t, order)}
	for i := range b.Heads {
		b.Heads[i] = graph.NoNode
	}
	for _, id := range order {
		op, why := t.Supports(g, id)
		if why != nil {
			b.Reasons[id] = why.Error()
			continue
		}
		if v, ok := withoutElements(g, id); ok {
			b.Reasons[id] = fmt.Sprintf("%q has no elements", g.Value(v).Name)
			continue
		}
		b.Ops[id] = op
	}
	for i := range b.Units {
		b.bindUnit(&b.Units[i])
	}
	length := make([]int, n) // by node: the activations between its head and its result
	for _, id := range order {
		op := b.Ops[id]
		switch {
		case op == nil:
		case op.Role != Activation:
			if head, behind := b.head(id, length); behind > 1 && b.withNumber(id) && b.Ops[head].Role == Weighted {
				b.Ops[id], b.Heads[id], length[id] = &activation, head, behind
			}
		case b.Heads[id] != graph.NoNode:
			length[id] = 1 // part of a fusion
		default:
			b.Heads[id], length[id] = b.head(id, length)
		}
	}
	if b.Tables > 0 {
		b.bindTables()
	}
	b.findPieces()
	return b, nil
}

// withoutElements is a tensor of numbers that a node reads or computes and that never holds any: there is nothing to take a scale from, and
// engines fail at such pairs.
func withoutElements(g *graph.Graph, id graph.NodeID) (graph.ValueID, bool) {
	n := g.Node(id)
	list := slices.Clone(n.Outputs)
	for _, i := range DataInputs(g, id) {
		list = append(list, n.Input(i))
	}
	for _, v := range list {
		if v != graph.NoValue && slices.ContainsFunc(g.Value(v).Shape, func(d graph.Dim) bool { return d.N == 0 }) {
			return v, true
		}
	}
	return graph.NoValue, false
}

// activation is the row of the nodes of a fused activation of several nodes.
var activation = Op{Type: "activation", Role: Activation}

func (b *Bound) bindUnit(u *Unit) {
	g := b.Graph
	head := graph.NoNode
	why := fmt.Sprintf("part of %s, which %s computes in float", u.Fusion.Family.Name, b.Name)
	if !u.Fusion.Island {
		if p := g.Producer(u.Input); p != graph.NoNode && b.Ops[p] != nil && b.Ops[p].Role == Weighted && u.Inside(g, u.Input) {
			head = p
		} else {
			why = fmt.Sprintf("part of %s, which has no operator before it that %s could fuse it with", u.Fusion.Family.Name, b.Name)
		}
	}
	for _, id := range u.Nodes {
		b.Heads[id] = head
		if head == graph.NoNode {
			b.Ops[id], b.Reasons[id] = nil, why
		} else {
			b.Ops[id] = &activation
		}
	}
}

// withNumber reports whether a node puts a number to what one tensor holds.
func (b *Bound) withNumber(id graph.NodeID) bool {
	at, ok := b.Graph.Argument(id)
	n := b.Graph.Node(id)
	return ok && b.Ops[id].Role == Arithmetic && len(n.Inputs) == 2 && n.Inputs[1-at] != n.Inputs[at]
}

// head returns the node whose result activation id alone reads, if the target computes the two together, and how many activations
// stand behind it then. length has those of the nodes before id.
func (b *Bound) head(id graph.NodeID, length []int) (head graph.NodeID, behind int) {
	g := b.Graph
	v := g.Node(id).Input(0)
	if g.Const(v) != nil {
		v = g.Node(id).Input(1)
	}
	if v == graph.NoValue {
		return graph.NoNode, 0
	}
	p := g.Producer(v)
	if p == graph.NoNode || b.Ops[p] == nil || b.Ops[p].FixedScale != 0 {
		return graph.NoNode, 0
	}
	if _, sole := g.SoleUse(v); !sole {
		return graph.NoNode, 0
	}
	head, behind = p, 1
	switch b.Ops[p].Role {
	case Passive:
		return graph.NoNode, 0
	case Activation:
		if head, behind = b.Heads[p], length[p]+1; head == graph.NoNode || behind > b.Chain {
			return graph.NoNode, 0
		}
	}
	// Where arithmetic operators round what they compute, only what cuts off ranges can be done with the integers.
	if b.Ops[head].Role == Arithmetic && b.Placement.Outputs() && !b.Ops[id].Alone {
		return graph.NoNode, 0
	}
	return head, behind
}

// Branches finds main and skip branch of a residual Add: see Residuals.Branches.
func (b *Bound) Branches(id graph.NodeID, integer func(graph.NodeID) bool) (main, skip int, ok bool) {
	return b.residuals.Branches(id, integer)
}

// DataInputs returns the inputs of a node that hold numbers to compute with (not shapes, indices, axes, bounds), constants
// included.
func (b *Bound) DataInputs(id graph.NodeID) []int { return DataInputs(b.Graph, id) }
