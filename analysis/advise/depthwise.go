package advise

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Depthwise is about channels of very different range in front of a convolution that does not mix them.
var Depthwise = &Cause{Name: "depthwise-channels",
	Doc: "the channels that a depthwise convolution reads differ much in range, and one scale serves them all", find: depthwise}

func depthwise(f *Facts) []Finding {
	list := f.layers(func(l *layer) bool { return l.act > 0.5 && f.unequal(l) >= unlike })
	// Its own error counts, not that of the outputs: the layers lie behind each other,
	// and what a few samples show of the one or the other swings.
	var most float64
	for _, l := range list {
		most = max(most, l.local)
	}
	list = slices.DeleteFunc(list, func(l layer) bool { return l.local < most/4 })
	if len(list) == 0 {
		return nil
	}
	list = list[:min(len(list), mostNodes)]
	out := Finding{Nodes: names(list)}
	l := list[0]
	_, root := f.input(l.id)
	out.Evidence = fmt.Sprintf("a quarter of the channels in front of %s take %.2g of %d levels or fewer; rounding activations makes %.0f "+
		"%% of its error at its own output (NSR %.2g)",
		l.Node, float64(root.Config.QMax-root.Config.QMin+1)/f.unequal(&l), root.Config.QMax-root.Config.QMin+1, 100*l.act, l.local)
	region, values := f.around(ids(list), true)
	out.Cures = []Cure{{Nodes: ids(list), Words: []string{"domain=fp32"}}, {Method: "migrate", Without: f.slotsOf(values), Share: 0.9},
		{Nodes: region, Words: []string{"domain=fp32"}}}
	return []Finding{out}
}

// mostAround bounds the operators that around finds on one side of one operator.
const mostAround = 32

// around lists operators with all that lies between them and the next operators with weights, those included, on both sides or
// behind them only, and the values between: wherever numbers of very different range stand on one scale because of them.
func (f *Facts) around(list []graph.NodeID, both bool) (nodes []graph.NodeID, values map[graph.ValueID]bool) {
	found, values := map[graph.NodeID]bool{}, map[graph.ValueID]bool{}
	for _, id := range list {
		found[id] = true
		var back, on func(graph.NodeID)
		left := mostAround
		visit := func(next graph.NodeID, v graph.ValueID, further func(graph.NodeID)) {
			if values[v] = true; next == graph.NoNode || found[next] || left == 0 || f.Set.Domains[next] == tqc.DomainSOI {
				return
			}
			left--
			if found[next] = true; f.weight(next) == nil {
				further(next)
			}
		}
		back = func(id graph.NodeID) {
			for _, v := range f.Graph.Node(id).Inputs {
				if v != graph.NoValue && f.Graph.Const(v) == nil {
					visit(f.Graph.Producer(v), v, back)
				}
			}
		}
		on = func(id graph.NodeID) {
			for _, v := range f.Graph.Node(id).Outputs {
				if v == graph.NoValue {
					continue
				}
				for _, u := range f.Graph.Uses(v) {
					visit(u.Node, v, on)
				}
			}
		}
		if both {
			back(id)
		}
		left = mostAround
		on(id)
	}
	for _, id := range f.Graph.Nodes() {
		if found[id] && f.Set.Domains[id] == tqc.DomainInt {
			nodes = append(nodes, id)
		}
	}
	return nodes, values
}

// slotsOf lists the slots at which values are quantized.
func (f *Facts) slotsOf(values map[graph.ValueID]bool) (out []tqc.SlotID) {
	for id := range tqc.SlotID(f.Set.NumSlots()) {
		if values[f.Set.Slot(id).Value] {
			out = append(out, id)
		}
	}
	return out
}

// unequal is how many times the grid of what a depthwise convolution reads is as wide as the channel that a quarter of the channels are
// narrower than; 0 for other operators, and where nothing is known.
func (f *Facts) unequal(l *layer) float64 {
	w := f.weight(l.id)
	if w == nil {
		return 0
	}
	linear, ok := graph.LinearOf(l.node, w.Index, f.Graph.Const(w.Value).Shape)
	if !ok || !linear.Depthwise() {
		return 0
	}
	slot, root := f.input(l.id)
	if slot == nil {
		return 0
	}
	st := f.Value(slot.Value)
	if st == nil {
		return 0
	}
	var widths []float64
	for _, c := range st.Channels() {
		if c.Max > c.Min {
			widths = append(widths, float64(c.Max)-float64(c.Min))
		}
	}
	if len(widths) < 2 {
		return 0
	}
	slices.Sort(widths)
	g := f.Set.Grid(root.ID, 0)
	return (float64(g.Dequantize(g.QMax)) - float64(g.Dequantize(g.QMin))) / widths[len(widths)/4]
}
