package dispatch

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// normalized reports whether a normalization that is a float kernel of the target reads what id computes.
func (s *State) normalized(id graph.NodeID) bool {
	return s.reads(id, func(reader graph.NodeID) bool {
		return slices.ContainsFunc(s.Units, func(u target.Unit) bool {
			norm := u.Fusion.Family == pattern.LayerNorm || u.Fusion.Family == pattern.RMSNorm
			return norm && u.Fusion.Island && slices.Contains(u.Nodes, reader)
		})
	})
}

// leaveEnds leaves in float the Arithmetic operators that the target computes in float at no cost and of which only float is read:
// rounding what the caller gets as float would be an error for nothing. What moves or cuts off their elements goes with them.
func (s *State) leaveEnds() {
	why := ByTarget + ": only float is read of it, and " + s.Target.Name + " computes it in float at no cost"
	read, left := make([]bool, s.Graph.NumNodes()), make([]bool, s.Graph.NumNodes())
	hands := func(id graph.NodeID) bool {
		role := s.Ops[id].Role
		return (role == target.Passive || role == target.Activation) && !s.marks[id].forced
	}
	leave := func(id graph.NodeID) {
		s.a.Domains[id], s.a.Why[id], left[id] = tqc.DomainFP32, why, true
	}
	for _, id := range slices.Backward(s.Order) {
		if !s.Integer(id) {
			continue
		}
		read[id] = s.reads(id, func(u graph.NodeID) bool { return s.Integer(u) && (read[u] || !hands(u)) })
		op := s.Ops[id]
		free := op.FloatEnd
		if !free && op.FloatNorm && s.normalized(id) {
			// The next sum of the residuals may end a chain on integers: it rounds what it reads of this one, once.
			free = true
			read[id] = s.reads(id, func(u graph.NodeID) bool { return s.Integer(u) && !s.Ops[u].FloatNorm && (read[u] || !hands(u)) })
		}
		if !read[id] && op.Role == target.Arithmetic && free && !s.marks[id].forced {
			leave(id)
		}
	}
	for _, id := range s.Order {
		if p := s.Graph.Producer(s.Graph.Node(id).Input(0)); p != graph.NoNode && left[p] && s.Integer(id) && hands(id) {
			leave(id)
		}
	}
}

// leaveScores leaves in float the operators whose integer kernel has coarse scales of its own (see target.Op.Finer) and that read a product
// which the target writes as float at no cost, with what only scales, masks or moves its elements before. No region loses its product, so
// that it comes behind the question of what pays.
func (s *State) leaveScores() {
	why := ByTarget + ": " + s.Target.Name + " computes it in float at no cost behind a product, without rounding its scores"
	for _, id := range s.Order {
		if s.Integer(id) && s.Ops[id].Finer != 0 {
			for _, n := range s.behindProduct(id) {
				s.a.Domains[n], s.a.Why[n] = tqc.DomainFP32, why
			}
		}
	}
}

// behindProduct lists an operator on integers and those in front of it up to a product that ends in float; nil if one is forced, is read
// elsewhere or has several inputs on integers.
func (s *State) behindProduct(id graph.NodeID) (list []graph.NodeID) {
	for op := s.Ops[id]; op.Role == target.Arithmetic || op.Role == target.Passive; op = s.Ops[id] {
		if s.marks[id].forced {
			return nil
		}
		list = append(list, id)
		from := graph.NoNode
		for _, v := range s.Graph.Node(id).Inputs {
			p := s.Graph.Producer(v)
			if p == graph.NoNode || !s.Integer(p) {
				continue
			}
			if _, sole := s.Graph.SoleUse(v); !sole || from != graph.NoNode {
				return nil
			}
			from = p
		}
		if from == graph.NoNode || s.a.Fused[from] != graph.NoNode {
			return nil
		}
		id = from
	}
	if op := s.Ops[id]; op.Role == target.Weighted && s.EndsInFloat(op) {
		return list
	}
	return nil
}
