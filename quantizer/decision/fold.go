package decision

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Cell is what is decided about the plan, one operator or one slot, with the decision that each property comes from.
type Cell struct {
	Properties
	rank [numProperties]int // the number of the decision, and selects if it selects something
}

// numProperties is the length of properties; a test holds the two equal.
const numProperties = 13

// selects is added to the rank of decisions that select something: they win over defaults, wherever those stand.
const selects = 1 << 30

// By returns the number, counted from 1, of the decision that a property comes from, 0 where nothing decided it.
func (c *Cell) By(name string) int { return c.rank[row(name)] % selects }

// Selected reports whether a property comes from a decision that selects something, not from a default.
func (c *Cell) Selected(name string) bool { return c.rank[row(name)] >= selects }

func row(name string) int {
	return slices.IndexFunc(properties, func(p Property) bool { return p.Name == name })
}

// put takes over property i of a decision with this rank, unless a stronger one is there.
func (c *Cell) put(from *Properties, i, rank int) {
	if rank > c.rank[i] {
		properties[i].copy(&c.Properties, from)
		c.rank[i] = rank
	}
}

// Later takes over those of the named properties that another cell has from stronger decisions: slots that share a scale share what is
// decided about any of them.
func (c *Cell) Later(from *Cell, names ...string) {
	for _, name := range names {
		i := row(name)
		c.put(&from.Properties, i, from.rank[i])
	}
}

// Table is a folded list of decisions.
type Table struct {
	Plan  Cell   // the dispatcher and its settings
	Nodes []Cell // by NodeID: domain, align
	// Slots holds by SlotID what is decided about inputs and outputs, by themselves or with their operators; numbered as by
	// tqc.NewSet. Defaults are in it, with the number of the decision they come from.
	Slots []Cell
	// Chosen holds by SlotID the number of the last decision that selects the slot itself, not its operator; 0 for none.
	Chosen []int
	list   []Decision
}

// Error is a decision that cannot be carried out.
type Error struct {
	Number int // counted from 1
	Text   string
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("decision #%d (%s): %v", e.Number, e.Text, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Fail wraps an error with the decision that it concerns; number counts from 1, 0 for none.
func (t *Table) Fail(number int, err error) error {
	if number < 1 || number > len(t.list) {
		return err
	}
	return &Error{Number: number, Text: t.list[number-1].String(), Err: err}
}

// Fold makes one table of the decisions in force. Of two about one property the later wins, but one that selects something wins over
// a default (a decision without select) wherever they stand. A selector that matches nothing and a property that is not for what is
// selected are errors that name the decision.
func Fold(g *graph.Graph, list []Decision) (*Table, error) {
	set := tqc.NewSet(g)
	t := &Table{Nodes: make([]Cell, g.NumNodes()), Slots: make([]Cell, set.NumSlots()), Chosen: make([]int, set.NumSlots()), list: list}
	in := InForce(list)
	for i := range list {
		if in[i] && !list[i].Properties.Empty() {
			if err := t.fold(g, set, &list[i], i+1); err != nil {
				return nil, t.Fail(i+1, err)
			}
		}
	}
	return t, nil
}

func (t *Table) fold(g *graph.Graph, set *tqc.Set, d *Decision, number int) error {
	rank := number
	if len(d.Select) > 0 {
		rank += selects
	}
	m := &Match{Nodes: g.Nodes()}
	if len(d.Select) > 0 {
		s, err := d.Select.Selector()
		if err != nil {
			return err
		}
		if m, err = s.Match(g, set); err != nil {
			return err
		}
	}
	whole := m.slots(set)
	for i := range properties {
		if !d.has(i) {
			continue
		}
		switch p := &properties[i]; p.Scope {
		case OfPlan:
			t.Plan.put(&d.Properties, i, rank)
		case OfNode:
			if len(m.Slots) > 0 {
				return fmt.Errorf("%s is decided for operators, not for one of their tensors (%s)", p.Name, place(g, set, m.Slots[0]))
			}
			for _, id := range m.Nodes {
				t.Nodes[id].put(&d.Properties, i, rank)
			}
		default:
			if p.Scope == OfTensor && len(m.Nodes) > 0 {
				n := g.Node(m.Nodes[0]).Name
				return fmt.Errorf("%s is of one tensor: select %s:in0, %s:weight or %s:out0, not the operator %q", p.Name, n, n, n, n)
			}
			hit := false
			for _, s := range whole {
				if scopeOf(g, set, s) == p.Scope && !(p.Name == "observer" && g.Const(set.Slot(s).Value) != nil) {
					t.Slots[s].put(&d.Properties, i, rank)
					hit = true
				}
			}
			for _, s := range m.Slots {
				if err := accepts(g, set, s, p); err != nil {
					return err
				}
				t.Slots[s].put(&d.Properties, i, rank)
				t.Chosen[s] = number
				hit = true
			}
			if !hit && len(d.Select) > 0 {
				return fmt.Errorf("%s: nothing that is selected has %s", p.Name,
					map[Scope]string{OfWeight: "constant weights", OfActivation: "activations", OfTensor: "a tensor"}[p.Scope])
			}
		}
	}
	return nil
}

// slots lists the data inputs and outputs of the operators that are selected as a whole, but those that are excluded.
func (m *Match) slots(set *tqc.Set) []tqc.SlotID {
	var list []tqc.SlotID
	for _, id := range m.Nodes {
		for _, slots := range [][]tqc.SlotID{set.Inputs(id), set.Outputs(id)} {
			for _, s := range slots {
				if s != tqc.NoSlot && !slices.Contains(m.Except, s) {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// ofBias is the scope of what no property of an operator reaches.
const ofBias Scope = 0xff

// scopeOf says what a slot is: a weight, an activation, or neither (a bias, a shape).
func scopeOf(g *graph.Graph, set *tqc.Set, s tqc.SlotID) Scope {
	sl := set.Slot(s)
	n := g.Node(sl.Node)
	switch {
	case sl.Kind == tqc.Output:
		if !target.DataOutput(g, sl.Node, sl.Index) {
			return ofBias
		}
		return OfActivation
	case !target.DataInput(g, sl.Node, sl.Index), g.Const(sl.Value) != nil && isBias(n, sl.Index):
		return ofBias
	case isWeight(g, n, sl.Index):
		return OfWeight
	}
	return OfActivation
}

func isBias(n *graph.Node, i int) bool {
	spec := n.Spec()
	return spec != nil && spec.Kind == graph.KindComputing && i == graph.BiasInput
}

// accepts reports whether a property is for a slot that was selected by itself.
func accepts(g *graph.Graph, set *tqc.Set, s tqc.SlotID, p *Property) error {
	is := scopeOf(g, set, s)
	if is == ofBias {
		return fmt.Errorf("%s is not quantized by itself: a bias takes the scales of its operator, shapes and indices have none",
			place(g, set, s))
	}
	if p.Scope == OfTensor || p.Scope == is || p.Name == "observer" || p.Name == "divisor" {
		return nil
	}
	return fmt.Errorf("%s is not for %s", p.Name, place(g, set, s))
}

// place names a slot: conv1:in0.
func place(g *graph.Graph, set *tqc.Set, s tqc.SlotID) string {
	sl := set.Slot(s)
	return g.Node(sl.Node).Name + ":" + At(sl.Kind, sl.Index)
}
