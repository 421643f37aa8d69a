package dispatch

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Strategy is a way to choose what runs on integers among the nodes that could.
type Strategy struct {
	Name string // as users and plans write it
	Doc  string // one line: what runs on integers
	// Decide decides about every node of s, by State.Forward and State.Leave.
	Decide func(s *State)
}

// Strategies lists the strategies; the first is the default. All but it are PPQ's dispatchers of the same names, held to what the
// target can compute: docs/dispatch.md compares them.
var Strategies = []Strategy{
	{Name: ByConservative, Decide: conservative,
		Doc: "operators with weights, and what follows them as long as every number it reads is an integer already"},
	{Name: "pplnn", Decide: pplnn,
		Doc: "as conservative, but only between operators with weights: what follows the last of them is float"},
	{Name: "aggressive", Decide: aggressive,
		Doc: "operators with weights, and all that follows them, behind operators that stay float as well"},
	{Name: "pointwise", Decide: pointwise,
		Doc: "operators with weights and the activations fused with them, nothing else"},
	{Name: "allin", Decide: allin,
		Doc: "all that the platform can compute on integers, wherever it stands"},
	{Name: "perseus", Decide: perseus,
		Doc: "all that is linked to an operator with weights, before or behind it, unless its numbers become a shape or come from one"},
}

// FindStrategy returns the strategy called name; "" is the default.
func FindStrategy(name string) (*Strategy, error) {
	var names []string
	for i := range Strategies {
		s := &Strategies[i]
		if s.Name == name || name == "" {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("unknown dispatcher %q: one of %s", name, strings.Join(names, ", "))
}

// Words says an entry of Assignment.Why to somebody who does not know the names.
func Words(why string) string {
	who, reason, more := strings.Cut(why, ": ")
	for _, s := range Strategies {
		if s.Name == who {
			who = "the dispatcher " + s.Name + " (on integers: " + s.Doc + ")"
		}
	}
	switch who {
	case ByTarget:
		who = "the target"
	case ByRule:
		who = "the rule for roots, quotients and logarithms"
	case ByCost:
		who = "the cost of conversions"
	case ByUser:
		who = "a user"
	case BySearch:
		who = "a search"
	case ByImport:
		who = "the file that was imported"
	}
	if more {
		who += ": " + reason
	}
	return who
}

func conservative(s *State) { s.Forward(s.floatInput) }

// floatInput says which number that a node reads is float, "" if none is. Operators with weights bring their inputs to integers
// themselves.
func (s *State) floatInput(id graph.NodeID) string {
	if s.Weighted(id) || s.Target.Float == target.FloatAbsent {
		return ""
	}
	g := s.Graph
	for _, i := range s.DataInputs(id) {
		v := g.Node(id).Input(i)
		if g.Const(v) == nil && !s.Integer(g.Producer(v)) {
			return fmt.Sprintf("input %q is float", g.Value(v).Name)
		}
	}
	return ""
}

func pplnn(s *State) {
	s.Forward(s.floatInput)
	leads := make([]bool, s.Graph.NumNodes()) // to an operator with weights, over integers
	for i := len(s.Order) - 1; i >= 0; i-- {
		id := s.Order[i]
		if !s.Integer(id) {
			continue
		}
		leads[id] = s.Weighted(id) || s.reads(id, func(u graph.NodeID) bool { return s.Integer(u) && leads[u] })
		if head := s.Heads[id]; !leads[id] && (head == graph.NoNode || !s.Weighted(head)) {
			s.Leave(id, "no operator with weights follows over integers")
		}
	}
}

// reads reports whether a node for which is holds reads a result of id as numbers.
func (s *State) reads(id graph.NodeID, is func(graph.NodeID) bool) bool {
	for _, v := range s.Graph.Node(id).Outputs {
		if v == graph.NoValue {
			continue
		}
		for _, u := range s.Graph.Uses(v) {
			if target.DataInput(s.Graph, u.Node, u.Index) && is(u.Node) {
				return true
			}
		}
	}
	return false
}

func aggressive(s *State) {
	after := make([]bool, s.Graph.NumNodes()) // an operator with weights comes before, or it is one
	for _, id := range s.Order {
		after[id] = s.starts(id)
		for _, p := range s.sources(id) {
			after[id] = after[id] || after[p]
		}
	}
	s.Forward(func(id graph.NodeID) string {
		if after[id] {
			return ""
		}
		return "no operator with weights on integers comes before it"
	})
}

func pointwise(s *State) {
	s.Forward(func(id graph.NodeID) string {
		if s.Weighted(id) {
			return ""
		}
		return "not an operator with weights"
	})
}

func allin(s *State) { s.Forward(func(graph.NodeID) string { return "" }) }

func perseus(s *State) {
	linked, mixed := s.linked(), s.mixed()
	s.Forward(func(id graph.NodeID) string {
		switch {
		case s.Weighted(id):
			return ""
		case !linked[id]:
			return "not linked to an operator with weights on integers"
		}
		return mixed[id]
	})
}

// starts reports whether node id sums products on integers whatever the strategy.
func (s *State) starts(id graph.NodeID) bool {
	return s.Weighted(id) && !s.shapes[id] && s.computed(id) && (!s.marks[id].forced || s.marks[id].domain == tqc.DomainInt)
}

// sources lists the nodes whose numbers node id reads and computes new numbers from, or passes on.
func (s *State) sources(id graph.NodeID) []graph.NodeID {
	g := s.Graph
	var list []graph.NodeID
	if s.shapes[id] {
		return nil
	}
	for _, i := range s.DataInputs(id) {
		if p := g.Producer(g.Node(id).Input(i)); p != graph.NoNode {
			list = append(list, p)
		}
	}
	return list
}

// linked marks, by NodeID, what numbers connect to an operator with weights on integers, in either direction.
func (s *State) linked() []bool {
	readers := make([][]graph.NodeID, s.Graph.NumNodes())
	var stack []graph.NodeID
	linked := make([]bool, s.Graph.NumNodes())
	visit := func(id graph.NodeID) {
		if !linked[id] && !s.shapes[id] {
			linked[id] = true
			stack = append(stack, id)
		}
	}
	for _, id := range s.Order {
		for _, p := range s.sources(id) {
			readers[p] = append(readers[p], id)
		}
		if s.starts(id) {
			visit(id)
		}
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, list := range [][]graph.NodeID{s.sources(id), readers[id]} {
			for _, next := range list {
				visit(next)
			}
		}
	}
	return linked
}

// mixed says, by NodeID, how shapes and numbers meet in a node: its results become a shape or an index, as far back as the operator
// with weights they come from (with what is fused to that), or it reads what a computation of shapes gives as numbers. Else "".
func (s *State) mixed() []string {
	g := s.Graph
	why := make([]string, g.NumNodes())
	for i := len(s.Order) - 1; i >= 0; i-- {
		id := s.Order[i]
		if s.shapes[id] || s.Weighted(id) || s.Heads[id] != graph.NoNode {
			continue
		}
		for _, v := range g.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			for _, u := range g.Uses(v) {
				numbers := target.DataInput(g, u.Node, u.Index) && !onlyShape(g.Node(u.Node))
				if numbers && (why[u.Node] == becomesShape || s.shapes[u.Node]) || target.ShapeInput(g, u.Node, u.Index) {
					why[id] = becomesShape
				}
			}
		}
		for _, p := range s.sources(id) {
			if why[id] == "" && s.shapes[p] {
				why[id] = "reads a shape as numbers"
			}
		}
	}
	return why
}

const becomesShape = "its numbers become a shape or an index"

// onlyShape reports whether a node looks at nothing but the shape of its input.
func onlyShape(n *graph.Node) bool { return n.Op == "Shape" || n.Op == "Size" }
