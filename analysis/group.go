package analysis

import (
	"math"
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
	// clipped is what clipping takes away from parameters, see sim.Clipped; inputs are the slots of computed tensors.
	clipped float64
	tuned   bool // it has parameters that the float network has otherwise
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
			lost, err := s.Clipped(slot, t)
			if err != nil {
				return nil, g.ErrorAt("analyze", id, err)
			}
			grp.clipped += lost
			grp.tuned = grp.tuned || !tensor.Equal(t, g.Const(sl.Value))
		}
		out = append(out, grp)
	}
	return out, nil
}

// clips is what limiting the group's tensors to the ranges of their grids takes away from them, see sim.Clipped; where that is 0, it
// changes nothing of what the group computes. values are the float activations, which are those of the group as long as none changes; where
// one is not kept it is infinite. last is the slot of the group's output where it alone clips.
func (g *group) clips(s *sim.Simulator, values []*tensor.Tensor) (sum float64, last *tqc.Slot, err error) {
	sum = g.clipped
	for _, sl := range g.inputs {
		t := values[sl.Value]
		if t == nil {
			return math.Inf(1), nil, nil
		}
		lost, err := s.Clipped(sl.ID, t)
		if err != nil {
			return 0, nil, err
		}
		if lost > 0 && sum == 0 && sl.Value == g.output && !g.tuned {
			last = sl
		} else if lost > 0 {
			last = nil
		}
		sum += lost
	}
	return sum, last, nil
}
