package dispatch

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// State is a graph that a Strategy decides about. The strategy says what it wants by Forward and Leave; State keeps what no
// strategy may change: shapes and indices, what the target has no integers for, what is forced, what is computed together.
type State struct {
	*target.Bound
	a       *Assignment
	name    string // of the strategy
	shapes  []bool
	marks   []mark
	refused error // the first node that is forced to integers and cannot be
}

// Integer reports whether node id, as far as decided, runs on integers; false for NoNode.
func (s *State) Integer(id graph.NodeID) bool { return s.a.integer(id) }

// Weighted reports whether the target has an integer form of id that sums products.
func (s *State) Weighted(id graph.NodeID) bool {
	return s.Ops[id] != nil && s.Ops[id].Role == target.Weighted
}

// Forward decides about all nodes, each after those it reads. keep says why the strategy leaves a node float that the target could
// run on integers, "" if it does not; it is not asked about nodes that are settled, and not about activations that go with the
// operator before them.
func (s *State) Forward(keep func(id graph.NodeID) string) {
	for _, id := range s.Order {
		m := s.marks[id]
		want := m.forced && m.domain == tqc.DomainInt
		who := s.name
		if want {
			who = m.why
		}
		switch {
		case s.shapes[id]:
			s.a.Domains[id], s.a.Why[id] = tqc.DomainSOI, s.name+": computes a shape or an index"
			if want {
				s.refuse(id, "it computes a shape or an index")
			}
		case m.forced && !want:
			s.a.Domains[id], s.a.Why[id] = s.island(id, m.domain), m.why
		case s.Ops[id] == nil:
			s.a.Why[id] = ByTarget + ": " + s.Reasons[id]
			if want {
				s.refuse(id, s.Reasons[id])
			}
		default:
			by, why := s.obstacle(id, keep, want)
			if why == "" {
				s.a.Domains[id], s.a.Why[id] = tqc.DomainInt, who
				continue
			}
			s.a.Why[id] = by + ": " + why
			if head := s.Heads[id]; head != graph.NoNode && s.a.Domains[head].Float() {
				s.a.Domains[id] = s.island(id, s.a.Domains[head]) // computed together
			}
			if want {
				s.refuse(id, why)
			}
		}
	}
}

// island is the domain of a node in float: one without constant weights that the target quantizes has none to be left of its operator.
func (s *State) island(id graph.NodeID, d tqc.Domain) tqc.Domain {
	n := s.Graph.Node(id)
	if d == tqc.DomainWeights && (!s.Weighted(id) && !graph.IsRecurrent(n) ||
		slices.ContainsFunc(target.WeightInputs(n), func(i int) bool { return s.Graph.Const(n.Input(i)) == nil })) {
		return tqc.DomainFP32
	}
	return d
}

// Leave turns a node back to float, unless it or the operator it is fused with is forced to integers.
func (s *State) Leave(id graph.NodeID, why string) {
	if head := s.Heads[id]; s.marks[id].forced || head != graph.NoNode && s.marks[head].forced {
		return
	}
	s.a.Domains[id], s.a.Why[id] = tqc.DomainFP32, s.name+": "+why
}

// obstacle returns why node id, which has a row in the target's table, stays float, and who says so: "" if it does not. The nodes
// before it are decided.
func (s *State) obstacle(id graph.NodeID, keep func(graph.NodeID) string, forced bool) (by, why string) {
	g, op := s.Graph, s.Ops[id]
	if op.Role == target.Activation {
		if head := s.Heads[id]; head != graph.NoNode {
			if !s.Integer(head) {
				return s.name, fmt.Sprintf("goes with %q", g.Node(head).Name)
			}
			return "", ""
		}
		if !op.Alone {
			return ByTarget, fmt.Sprintf("%s fuses it only with an operator before it that nothing else reads", s.Name)
		}
	}
	if !forced {
		if op.Asked {
			return ByTarget, fmt.Sprintf("%s computes it on integers where it is asked to: set %s domain=int", s.Name, g.Node(id).Name)
		}
		if why := s.Pieces[id]; why != "" {
			return ByRule, why
		}
		if why := keep(id); why != "" {
			return s.name, why
		}
	}
	if !s.computed(id) {
		return s.name, "no input is computed"
	}
	if op.Role == target.Arithmetic && s.Placement.Residual() {
		if _, _, ok := s.Branches(id, s.Integer); !ok {
			return ByTarget, fmt.Sprintf("%s computes it on integers only as the end of a residual branch", s.Name)
		}
	}
	return "", ""
}

// computed reports whether a node reads numbers that are not constant.
func (s *State) computed(id graph.NodeID) bool {
	for _, i := range s.DataInputs(id) {
		if s.Graph.Const(s.Graph.Node(id).Input(i)) == nil {
			return true
		}
	}
	return false
}

// refuse records that a node cannot run on integers although somebody wants it to.
func (s *State) refuse(id graph.NodeID, why string) {
	if s.refused == nil {
		s.refused = s.Graph.ErrorAt(stage, id, errors.New("cannot run on integers, as is wanted ("+s.marks[id].why+"): "+why))
	}
}
