package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/quantizer/tqc"
)

// Structure says which operators two networks share, and which only one of them has.
type Structure struct {
	A int `json:"a"` // operators of the first
	B int `json:"b"`
	// Both are operators that are in both and alike; Renamed are those of them that have another name in B.
	Both    int `json:"both"`
	Renamed int `json:"renamed"`
	OnlyA   int `json:"only_a"`
	OnlyB   int `json:"only_b"`
	// FormA and FormB are operators that the other network has under another form: as another type, as several, computed together with another
	// operator, or with constants of other sizes.
	FormA int `json:"form_a"`
	FormB int `json:"form_b"`
	// Comparable is false where less than half of the smaller network is in both: then a comparison operator by operator says nothing.
	Comparable bool           `json:"comparable"`
	Rows       []StructureRow `json:"rows"` // what is not alike, in the order of a, then of b
}

// The kinds of rows of a Structure.
const (
	StructureOnlyA   = "only_a"
	StructureOnlyB   = "only_b"
	StructureForm    = "form"
	StructureRenamed = "renamed"
)

// StructureRow is an operator, or several that belong together, in one network or in both.
type StructureRow struct {
	Kind string     `json:"kind"`
	A    []Operator `json:"a"`
	B    []Operator `json:"b"`
	Why  string     `json:"why"` // what is another form, in words
}

// Operator names an operator.
type Operator struct {
	Node string `json:"node"`
	Op   string `json:"op"`
}

// Same reports whether both networks have the same operators.
func (s *Structure) Same() bool { return len(s.Rows) == 0 }

// Different says in words that two networks have too little in common; empty where that is not so.
func (s *Structure) Different() string {
	if s.Comparable {
		return ""
	}
	return fmt.Sprintf("the two networks are too different to be compared operator by operator: %d of %d and %d operators are in both",
		s.Both, s.A, s.B)
}

// Structures compares two networks by their operators. A set may be nil: nothing is decided then.
func Structures(a, b Configured) (*Structure, error) {
	m, err := Match(a.Graph, b.Graph)
	if err != nil {
		return nil, err
	}
	s := &structures{Matching: m, sets: [2]*tqc.Set{a.Set, b.Set}, done: [2]map[graph.NodeID]bool{{}, {}}}
	s.res = &Structure{A: len(m.orderA), B: len(m.orderB), Rows: []StructureRow{}}
	s.pairs()
	s.stretches()
	s.res.OnlyA, s.res.OnlyB = s.res.A-s.res.Both-s.res.FormA, s.res.B-s.res.Both-s.res.FormB
	s.res.Comparable = 2*s.res.Both >= min(s.res.A, s.res.B)
	arrange.Stable(s.res.Rows, func(x, y StructureRow) int { return cmp.Compare(s.place(x), s.place(y)) })
	return s.res, nil
}

type structures struct {
	*Matching
	sets [2]*tqc.Set
	done [2]map[graph.NodeID]bool // operators that a row or a pair has
	res  *Structure
}

// place orders rows: names alone last, then as a has them, then as b.
func (s *structures) place(r StructureRow) int {
	g, list, after := s.a, r.A, 0
	if len(list) == 0 {
		g, list, after = s.b, r.B, s.res.A
	}
	if r.Kind == StructureRenamed {
		after += s.res.A + s.res.B
	}
	order := s.orderA
	if g == s.b {
		order = s.orderB
	}
	id, _ := g.LookupNode(list[0].Node)
	return after + slices.Index(order, id)
}

func (s *structures) operators(side int, ids ...graph.NodeID) []Operator {
	list := make([]Operator, len(ids))
	for i, id := range ids {
		n := s.graph(side).Node(id)
		list[i] = Operator{n.Name, n.Op}
		s.done[side][id] = true
	}
	return list
}

func (s *structures) graph(side int) *graph.Graph { return [2]*graph.Graph{s.a, s.b}[side] }

// pairs goes through the operators that have a counterpart.
func (s *structures) pairs() {
	for _, x := range s.orderA {
		y := s.ToB[x]
		if y == graph.NoNode {
			if o, ok := s.b.LookupNode(s.a.Node(x).Name); ok && s.ToA[o] == graph.NoNode {
				s.form([]graph.NodeID{x}, []graph.NodeID{o}, "the same name, another type")
			}
			continue
		}
		switch why := s.changed(x, y); {
		case why != "":
			s.form([]graph.NodeID{x}, []graph.NodeID{y}, why)
			continue
		case s.a.Node(x).Name != s.b.Node(y).Name:
			s.res.Renamed++
			s.res.Rows = append(s.res.Rows,
				StructureRow{StructureRenamed, s.operators(0, x), s.operators(1, y), "the same operator under another name"})
		}
		s.done[0][x], s.done[1][y] = true, true
		s.res.Both++
	}
}

func (s *structures) form(x, y []graph.NodeID, why string) {
	s.res.FormA, s.res.FormB = s.res.FormA+len(x), s.res.FormB+len(y)
	s.res.Rows = append(s.res.Rows, StructureRow{StructureForm, s.operators(0, x...), s.operators(1, y...), why})
}

// changed says what is another form of an operator that both have.
func (s *structures) changed(x, y graph.NodeID) string {
	with := func(side int, id graph.NodeID) (head graph.NodeID, text string) {
		if s.sets[side] == nil || s.sets[side].Fused[id] == graph.NoNode {
			return graph.NoNode, "by itself"
		}
		head = s.sets[side].Fused[id]
		return head, "together with " + s.graph(side).Node(head).Name
	}
	h, p := with(0, x)
	k, q := with(1, y)
	if s.sets[0] != nil && s.sets[1] != nil && (h == graph.NoNode) != (k == graph.NoNode) || h != graph.NoNode && k != graph.NoNode &&
		s.ToB[h] != k {
		return fmt.Sprintf("computed %s in A, %s in B", p, q)
	}
	n, o := s.a.Node(x), s.b.Node(y)
	for i := range min(len(n.Inputs), len(o.Inputs)) {
		if c, d := s.a.Const(n.Inputs[i]), s.b.Const(o.Inputs[i]); c != nil && d != nil && !slices.Equal(c.Shape, d.Shape) {
			return fmt.Sprintf("input %d has %s in A, %s in B", i+1, shapeText(c.Shape), shapeText(d.Shape))
		}
	}
	return ""
}

func shapeText(shape []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "×")
}

// stretch is what hangs together of the operators that have no counterpart, with where it begins and ends, as places of operators of a.
type stretch struct {
	nodes    []graph.NodeID
	from, to []int
}

// stretches pairs what is left: stretches that stand in the same place of both networks are one under two forms.
func (s *structures) stretches() {
	list := [2][]*stretch{s.stretchesOf(0), s.stretchesOf(1)}
	taken := map[*stretch]bool{}
	for _, fits := range []func(p, q *stretch) bool{
		func(p, q *stretch) bool { return slices.Equal(p.from, q.from) && slices.Equal(p.to, q.to) },
		func(p, q *stretch) bool { return len(p.to) > 0 && slices.Equal(p.to, q.to) },
		func(p, q *stretch) bool { return len(p.from) > 0 && slices.Equal(p.from, q.from) },
	} {
		for _, p := range list[0] {
			i := slices.IndexFunc(list[1], func(q *stretch) bool { return !taken[q] && fits(p, q) })
			if taken[p] || i < 0 {
				continue
			}
			q := list[1][i]
			taken[p], taken[q] = true, true
			s.form(p.nodes, q.nodes, "other operators in the same place")
		}
	}
	for side, kind := range []string{StructureOnlyA, StructureOnlyB} {
		for _, p := range list[side] {
			if taken[p] {
				continue
			}
			row := StructureRow{Kind: kind, A: []Operator{}, B: []Operator{}}
			if side == 0 {
				row.A = s.operators(side, p.nodes...)
			} else {
				row.B = s.operators(side, p.nodes...)
			}
			s.res.Rows = append(s.res.Rows, row)
		}
	}
}

// stretchesOf are the stretches of one side.
func (s *structures) stretchesOf(side int) (list []*stretch) {
	g, order := s.graph(side), [2][]graph.NodeID{s.orderA, s.orderB}[side]
	at := map[graph.NodeID]*stretch{}
	boundary := func(id graph.NodeID) int { // an operator with a counterpart, as a has it
		if side == 0 {
			return int(id)
		}
		return int(s.ToA[id])
	}
	for _, id := range order {
		if s.done[side][id] {
			continue
		}
		p := &stretch{nodes: []graph.NodeID{id}}
		at[id] = p
		for _, v := range g.Node(id).Inputs {
			if v == graph.NoValue {
				continue
			}
			x := g.Producer(v)
			switch {
			case x == graph.NoNode && g.Const(v) == nil:
				p.from = append(p.from, -2-slices.Index(g.Inputs, v))
			case x == graph.NoNode:
			case s.done[side][x]:
				p.from = append(p.from, boundary(x))
			case at[x] != at[id]: // the two are one
				p = join(at[x], at[id])
				for _, n := range p.nodes {
					at[n] = p
				}
			}
		}
		for _, v := range g.Node(id).Outputs {
			if i := slices.Index(g.Outputs, v); i >= 0 {
				p.to = append(p.to, -2-i)
			}
			for _, u := range g.Uses(v) {
				if u.Node != graph.NoNode && s.done[side][u.Node] {
					p.to = append(p.to, boundary(u.Node))
				}
			}
		}
	}
	for _, id := range order {
		if p := at[id]; p != nil && p.nodes[0] == id {
			for _, l := range []*[]int{&p.from, &p.to} {
				slices.Sort(*l)
				*l = slices.Compact(*l)
			}
			list = append(list, p)
		}
	}
	return list
}

func join(p, q *stretch) *stretch {
	p.nodes, p.from, p.to = append(p.nodes, q.nodes...), append(p.from, q.from...), append(p.to, q.to...)
	return p
}
