package sim

import (
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Group is an operator together with what is fused to it: the unit that is measured alone.
type Group struct {
	Nodes  []graph.NodeID // in order, the operator first
	Output graph.ValueID  // what the last one computes; graph.NoValue where it computes nothing
	// Slots are where the group's tensors are quantized: the slots that round and belong to it (see Groups), of a float island of less
	// precision than float32 those that are rounded.
	Slots []tqc.SlotID
	// Reads are, of an operator that sums products, the inputs whose tensors are quantized in another group, where their producer is. A view
	// of them quantizes them in front of the operator.
	Reads []tqc.SlotID
}

// Groups lists, in graph order, the operators at which something rounds. Every slot that rounds belongs to one group, and to no other: that
// of its node, or of the operator that the node is fused to. What a node that only moves numbers (graph.Passive) puts on the grid that they
// are on already rounds nothing: it belongs to the group that put them there.
func (s *Simulator) Groups() []Group {
	owner := make([]graph.NodeID, s.set.NumSlots())
	slots := make([][]tqc.SlotID, s.g.NumNodes()) // by the operator of the group
	reads := make([][]tqc.SlotID, s.g.NumNodes())
	for i := range owner {
		owner[i] = graph.NoNode
	}
	for _, id := range s.order {
		for _, sl := range s.slotsOf(id) {
			slot := s.set.Slot(sl)
			quantizes := slot.State().Quantizes() || s.rounds(slot)
			to := s.head(id)
			if !quantizes {
				if computing(s.g.Node(to)) && s.mirrored(slot) {
					reads[to] = append(reads[to], sl)
				}
				continue
			}
			if from := s.movedFrom(slot); from != tqc.NoSlot && owner[from] != graph.NoNode {
				to = owner[from]
			}
			slots[to], owner[sl] = append(slots[to], sl), to
		}
	}
	var list []Group
	for _, id := range s.order {
		if len(slots[id]) == 0 {
			continue
		}
		gr := Group{Nodes: s.set.Together(id, s.order), Output: graph.NoValue, Slots: slots[id], Reads: reads[id]}
		if last := s.g.Node(gr.Nodes[len(gr.Nodes)-1]); len(last.Outputs) > 0 {
			gr.Output = last.Outputs[0]
		}
		list = append(list, gr)
	}
	return list
}

// head is the operator that a node is computed together with, or the node itself.
func (s *Simulator) head(id graph.NodeID) graph.NodeID {
	if h := s.set.Fused[id]; h != graph.NoNode {
		return h
	}
	return id
}

// slotsOf lists the slots of a node, inputs first.
func (s *Simulator) slotsOf(id graph.NodeID) (list []tqc.SlotID) {
	for _, of := range [][]tqc.SlotID{s.set.Inputs(id), s.set.Outputs(id)} {
		for _, sl := range of {
			if sl != tqc.NoSlot {
				list = append(list, sl)
			}
		}
	}
	return list
}

// movedFrom is the output slot, of the node before, that puts the numbers of a slot of a node that only moves them on the same grid; NoSlot
// where there is none.
func (s *Simulator) movedFrom(sl *tqc.Slot) tqc.SlotID {
	if computing(s.g.Node(s.head(sl.Node))) || !s.g.Passive(sl.Node) || sl.Config.RunTime() {
		return tqc.NoSlot
	}
	v := s.g.Node(sl.Node).Input(0)
	if sl.Kind == tqc.Input && sl.Index != 0 || v == graph.NoValue {
		return tqc.NoSlot
	}
	p := s.g.Producer(v)
	if p == graph.NoNode {
		return tqc.NoSlot
	}
	for i, out := range s.g.Node(p).Outputs {
		if out != v {
			continue
		}
		from := s.set.Output(p, i)
		if from == tqc.NoSlot {
			return tqc.NoSlot
		}
		src := s.set.Slot(from)
		same := src.State().Quantizes() && sl.State().Quantizes() && s.set.Root(from) == s.set.Root(sl.ID)
		if same || s.rounds(src) && s.rounds(sl) && s.precision(p) == s.precision(sl.Node) {
			return from
		}
	}
	return tqc.NoSlot
}
