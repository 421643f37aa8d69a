package sim

import (
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// earlySlots returns, by value, an input slot that may be carried out where the value is computed: all its readers act alike, and
// nobody else reads it. on is whether to look for any; nil without.
func (s *Simulator) earlySlots(actions []action, on bool) []tqc.SlotID {
	if !on {
		return nil
	}
	early := make([]tqc.SlotID, s.g.NumValues())
	for v := range early {
		if early[v] = tqc.NoSlot; s.g.Alive(s.g.Producer(graph.ValueID(v))) {
			early[v] = s.earlySlot(graph.ValueID(v), actions)
		}
	}
	return early
}

func (s *Simulator) earlySlot(v graph.ValueID, actions []action) tqc.SlotID {
	uses := s.g.Uses(v)
	if len(uses) == 0 || s.g.IsOutput(v) || s.g.Captured(v) {
		return tqc.NoSlot
	}
	first := s.set.Input(uses[0].Node, uses[0].Index)
	for _, u := range uses {
		if id := s.set.Input(u.Node, u.Index); id == tqc.NoSlot || first == tqc.NoSlot || actions[id] == leave || !s.alike(id, first, actions) {
			return tqc.NoSlot
		}
	}
	return first
}

// alike reports whether two slots of one tensor do the same to it.
func (s *Simulator) alike(a, b tqc.SlotID, actions []action) bool {
	if a == b {
		return true
	}
	if actions[a] != actions[b] {
		return false
	}
	if actions[a] == island {
		return s.precision(s.set.Slot(a).Node) == s.precision(s.set.Slot(b).Node)
	}
	x, y := &s.set.Slot(a).Config, &s.set.Slot(b).Config
	return (s.set.Root(a) == s.set.Root(b) || !x.NeedsScale()) && x.Policy == y.Policy && x.Format == y.Format && x.Blocks == y.Blocks &&
		x.Rounding == y.Rounding && x.Axis == y.Axis && x.GroupSize == y.GroupSize
}
