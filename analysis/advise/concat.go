package advise

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/quantizer/tqc"
)

// Concat is about tensors of very different range that share one scale because an operator puts them together.
var Concat = &Cause{Name: "concat-ranges",
	Doc: "an operator puts tensors of very different range together on one scale: the small ones get few levels", find: concat}

func concat(f *Facts) []Finding {
	type join struct {
		id          graph.NodeID
		small, wide float64
		at          *tqc.Slot // of the small one
	}
	var list []join
	for _, id := range f.Graph.Nodes() {
		var computed []tqc.SlotID
		for i, v := range f.Graph.Node(id).Inputs {
			if s := f.Set.Input(id, i); s != tqc.NoSlot && v != graph.NoValue && f.Graph.Const(v) == nil && f.Set.Params(s).Ready() {
				computed = append(computed, s)
			}
		}
		if len(computed) < 2 {
			continue
		}
		j := join{id: id}
		for _, s := range computed {
			on := s
			if f.Graph.Node(id).Op == "Concat" { // whose output is on one scale whatever the inputs are on
				if on = f.Set.Output(id, 0); on == tqc.NoSlot || !f.Set.Params(on).Ready() {
					continue
				}
			} else if !f.shared(s) {
				continue
			}
			st, c := f.Value(f.Set.Slot(s).Value), &f.Set.Slot(on).Config
			if st == nil || st.Extent().Empty() || !c.Integer() || !c.Policy.Has(tqc.PerTensor) {
				continue
			}
			g := f.Set.Grid(on, 0)
			size, wide := float64(max(-st.Extent().Min, st.Extent().Max)), float64(max(-g.Dequantize(g.QMin), g.Dequantize(g.QMax)))
			if size > 0 && (j.at == nil || size/wide < j.small/j.wide) {
				j.small, j.wide, j.at = size, wide, f.Set.Slot(s)
			}
		}
		if j.at != nil && j.wide >= unlike*j.small {
			list = append(list, j)
		}
	}
	if len(list) == 0 {
		return nil
	}
	arrange.Stable(list, func(a, b join) int { return cmp.Compare(b.wide/b.small, a.wide/a.small) })
	list = list[:min(len(list), mostNodes)]
	j := list[0]
	c := &j.at.Config
	out := Finding{Evidence: fmt.Sprintf("%s reaches %.3g, and the scale that it gets with others %.3g: it takes %.0f of %d levels",
		f.name(j.at), j.small, j.wide, max(1, float64(c.QMax-c.QMin+1)*j.small/j.wide), c.QMax-c.QMin+1)}
	var nodes []graph.NodeID
	for _, j := range list {
		out.Nodes, nodes = append(out.Nodes, f.Graph.Node(j.id).Name), append(nodes, j.id)
	}
	readers, _ := f.around(nodes, false)
	out.Cures = []Cure{{Nodes: nodes, Words: []string{"align=none"}}, {Nodes: nodes, Words: []string{"domain=fp32"}},
		{Nodes: readers, Words: []string{"domain=fp32"}}}
	return []Finding{out}
}

// shared reports whether the scale of a slot is also that of another tensor.
func (f *Facts) shared(s tqc.SlotID) bool {
	return slices.ContainsFunc(f.Set.Group(s), func(o tqc.SlotID) bool { return f.Set.Slot(o).Value != f.Set.Slot(s).Value })
}
