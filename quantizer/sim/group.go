package sim

import (
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Group is an operator together with what is fused to it: the unit that is measured alone.
type Group struct {
	Nodes  []graph.NodeID // in order, the operator first
	Output graph.ValueID  // what the last one computes
	// Slots are where the group's tensors are quantized: the slots of its nodes that quantize, and inputs that their producer
	// quantizes (those are quantized in front of the group when it is measured alone). Of a float island of less precision than float32 they
	// are those that are rounded.
	Slots []tqc.SlotID
}

// Group returns the group of an operator. For a node that is itself fused to another the group is the node alone.
func (s *Simulator) Group(node graph.NodeID) Group {
	gr := Group{Nodes: s.set.Together(node, s.order)}
	last := s.g.Node(gr.Nodes[len(gr.Nodes)-1])
	if len(last.Outputs) > 0 {
		gr.Output = last.Outputs[0]
	} else {
		gr.Output = graph.NoValue
	}
	for _, id := range gr.Nodes {
		for _, sl := range append(append([]tqc.SlotID(nil), s.set.Inputs(id)...), s.set.Outputs(id)...) {
			if sl != tqc.NoSlot && (s.set.Slot(sl).State().Quantizes() || s.mirrored(s.set.Slot(sl)) || s.rounds(s.set.Slot(sl))) {
				gr.Slots = append(gr.Slots, sl)
			}
		}
	}
	return gr
}
