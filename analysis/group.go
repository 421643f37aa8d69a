package analysis

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// group is an operator together with what is fused to it: a row of the tables. See sim.Groups: every slot that rounds is in one of them.
type group struct {
	node   graph.NodeID
	nodes  []graph.NodeID
	output graph.ValueID
	slots  []tqc.SlotID
	// all and weights select the slots of the group, and those of them that are parameters; reads selects what it reads that others round.
	all, weights, reads func(tqc.SlotID) bool
	weighted            bool // it has parameters that are quantized
	products            bool // it sums products
	// clipped says that a parameter has values outside its range; inputs are the slots of computed tensors.
	clipped bool
	inputs  []*tqc.Slot
	// between are values that depend on the group and are not compared with the kept ones; see findRestarts.
	between []graph.ValueID
	stage   int // in front of which restarts wait; see enterStages
}

func (g *group) contains(id graph.NodeID) bool { return slices.Contains(g.nodes, id) }

// groupsOf lists, in graph order, the operators that are analysed: those at which something rounds.
func groupsOf(g *graph.Graph, s *sim.Simulator) ([]group, error) {
	var out []group
	for _, sg := range s.Groups() {
		if sg.Output == graph.NoValue {
			continue
		}
		id := sg.Nodes[0]
		all := sim.Only(sg.Slots)
		grp := group{node: id, nodes: sg.Nodes, output: sg.Output, slots: sg.Slots, all: all,
			weights: func(slot tqc.SlotID) bool { return all(slot) && s.Set().Slot(slot).Weight }}
		if len(sg.Reads) > 0 {
			grp.reads = sim.Only(sg.Reads)
		}
		spec := g.Node(id).Spec()
		grp.products = spec != nil && spec.Kind == graph.KindComputing
		for _, slot := range sg.Slots {
			sl := s.Set().Slot(slot)
			grp.weighted = grp.weighted || sl.Weight
			t := s.Graph().Const(sl.Value)
			if t == nil {
				grp.inputs = append(grp.inputs, sl)
				continue
			}
			clips, err := s.Clips(slot, t)
			if err != nil {
				return nil, g.ErrorAt("analyze", id, err)
			}
			grp.clipped = grp.clipped || clips
		}
		out = append(out, grp)
	}
	return out, nil
}

// clips reports whether limiting the group's tensors to the ranges of their grids may change any of them; if not, neither does
// it change what the group computes. values are the float activations, which are those of the group as long as none changes.
func (g *group) clips(s *sim.Simulator, values []*tensor.Tensor) (bool, error) {
	if g.clipped {
		return true, nil
	}
	for _, sl := range g.inputs {
		t := values[sl.Value]
		if t == nil {
			return true, nil // not kept
		}
		if clips, err := s.Clips(sl.ID, t); err != nil || clips {
			return clips, err
		}
	}
	return false, nil
}
