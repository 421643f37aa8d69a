package planning

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// changes says in words what a decision changed: how many operators went from where to where, those included that go along with what was
// selected, and how many tensors have another format or scale.
func changes(was, is *Derived, d decision.Decision) string {
	selected := map[graph.NodeID]bool{}
	if sel, err := d.Select.Selector(); err == nil {
		if m, err := sel.Match(is.Graph, is.Set); err == nil {
			for _, id := range m.Nodes {
				selected[id] = true
			}
		}
	}
	moves, along := map[string]int{}, 0
	for _, id := range is.Graph.Nodes() {
		if from, to := was.Set.Domains[id], is.Set.Domains[id]; from != to {
			moves[fmt.Sprintf("%s to %s", from, to)]++
			if !selected[id] {
				along++
			}
		}
	}
	var words []string
	for _, move := range slices.Sorted(maps.Keys(moves)) {
		words = append(words, fmt.Sprintf("%s: %s", plain.Count(moves[move], "operator"), move))
	}
	if along > 0 {
		words[len(words)-1] += fmt.Sprintf(" (%d of them taken along)", along)
	}
	formats, scales := 0, 0
	for i := range is.Set.NumSlots() {
		id := tqc.SlotID(i)
		if i >= was.Set.NumSlots() || is.Set.Root(id) != id || !is.Set.Slot(id).State().Quantizes() || !was.Set.Slot(id).State().Quantizes() {
			continue
		}
		a, b := was.Set.Slot(id), is.Set.Slot(id)
		switch {
		case a.Config.Scheme() != b.Config.Scheme():
			formats++
		case !reflect.DeepEqual(was.Set.Params(id).Scale, is.Set.Params(id).Scale):
			scales++
		}
	}
	if formats > 0 {
		words = append(words, plain.Count(formats, "tensor")+" in another format")
	}
	if scales > 0 {
		words = append(words, plain.Count(scales, "tensor")+" with another scale")
	}
	if len(words) == 0 {
		return "nothing changes now: it is so already; the decision stays in force for later"
	}
	return strings.Join(words, ", ")
}
