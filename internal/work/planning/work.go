package planning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// CompareIntegers compares the domains of a graph with those of one that came of it.
func CompareIntegers(was *graph.Graph, had []tqc.Domain, now *graph.Graph, has []tqc.Domain) analysis.OnIntegers {
	all, before, float := workOf(was, had)
	_, after, floatNow := workOf(now, has)
	o := analysis.OnIntegers{MACs: all, Before: before, After: after}
	for _, id := range now.Nodes() {
		n := now.Node(id)
		old, there := was.LookupNode(strings.TrimSuffix(n.Name, rewrite.CopyOf(""))) // a copy of what is float moves nothing
		if (after < before || floatNow > float) && has[id].Float() && (!there || !had[old].Float()) {
			o.Moved = append(o.Moved, n.Name)
		}
	}
	o.Words = wordsOf(&o)
	return o
}

// IntegerShare is the share of a graph's multiply-accumulates that run on integers on a target, 0 to 1; nil for a graph without any.
// Formats that are no integers do not, nor do convolutions with scales of run time, nor products that the target multiplies in float.
func IntegerShare(g *graph.Graph, set *tqc.Set, t *target.Target) *float64 {
	all, integer, _ := workOf(g, set.Domains)
	if all == 0 {
		return nil
	}
	float := floatProducts(g, set, t)
	for _, id := range g.Nodes() {
		n, _ := g.MACsAtLeast(id)
		if set.Domains[id] == tqc.DomainInt && n > 0 &&
			(slices.Contains(float, id) || !integerFactors(g, g.Node(id), set) || otherBits(g, g.Node(id), set, t)) {
			integer -= n
		}
	}
	share := float64(integer) / float64(all)
	return &share
}

// floatProducts lists the products with integers on both sides that the target multiplies in float.
func floatProducts(g *graph.Graph, set *tqc.Set, t *target.Target) (list []graph.NodeID) {
	b, err := t.Bind(g)
	if err != nil {
		return nil
	}
	for _, id := range b.Order {
		if set.Domains[id] == tqc.DomainInt && !b.MultipliesIntegers(id, set) {
			list = append(list, id)
		}
	}
	return list
}

// warnFloatProducts says which these are, and which have factors that the target's integers have not.
func warnFloatProducts(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	var warnings []tqc.Warning
	var others []string
	for _, id := range g.Nodes() {
		if n := g.Node(id); set.Domains[id] == tqc.DomainInt && otherBits(g, n, set, t) {
			others = append(others, n.Name)
		}
	}
	if len(others) > 0 {
		warnings = []tqc.Warning{{Node: others[0], Text: fmt.Sprintf("%s multiplies integers of eight bits alone: %s with others run in float, "+
			"between roundings, which takes longer than domain=fp32", t.Name, plain.Count(len(others), "operator"))}}
	}
	list := floatProducts(g, set, t)
	if len(list) == 0 {
		return warnings
	}
	return append(warnings, tqc.Warning{Node: g.Node(list[0]).Name,
		Text: fmt.Sprintf("%s computes %s with integers on both sides in float: a "+
			"factor has a zero point, or no sign; activations=int8-sym-tensor on its inputs mends that", t.Name, plain.Count(len(list), "product"))})
}

// otherBits reports whether a node multiplies integers that have another width than the target's products have.
func otherBits(g *graph.Graph, n *graph.Node, set *tqc.Set, t *target.Target) bool {
	if macs, _ := g.MACsAtLeast(n.ID); macs == 0 || !t.Export.EightBits {
		return false
	}
	for i, v := range n.Inputs[:min(2, len(n.Inputs))] {
		for _, s := range factorSlots(g, set, n, i, v) {
			if c := &set.Slot(s).Config; c.Integer() && c.Bits != 8 {
				return true
			}
		}
	}
	return false
}

// factorSlots are the slots with a grid of what a node reads: its own, and that of what computes it.
func factorSlots(g *graph.Graph, set *tqc.Set, n *graph.Node, i int, v graph.ValueID) []tqc.SlotID {
	slots := []tqc.SlotID{set.Input(n.ID, i)}
	if v != graph.NoValue && g.Producer(v) != graph.NoNode {
		p := g.Node(g.Producer(v))
		slots = append(slots, set.Output(p.ID, slices.Index(p.Outputs, v)))
	}
	return slices.DeleteFunc(slots, func(s tqc.SlotID) bool { return s == tqc.NoSlot || !set.Slot(s).State().Quantizes() })
}

// integerFactors reports whether what a node multiplies are integers.
func integerFactors(g *graph.Graph, n *graph.Node, set *tqc.Set) bool {
	for i, v := range n.Inputs {
		for _, s := range factorSlots(g, set, n, i, v) {
			if c := &set.Slot(s).Config; !c.Integer() || c.RunTime() && graph.Slides(n.Op) {
				return false
			}
		}
	}
	return true
}

// workOf is how many multiply-accumulates a graph has and how many of them run on integers, and how many elements are computed in float.
// What only moves elements computes none, so that a tensor may be taken apart.
func workOf(g *graph.Graph, domains []tqc.Domain) (macs, integer, float int64) {
	for _, id := range g.Nodes() {
		n, _ := g.MACsAtLeast(id)
		macs += n
		switch {
		case domains[id] == tqc.DomainInt:
			integer += n
		case domains[id].Float() && !g.Passive(id) && g.Node(id).Op != "Concat":
			outs := g.Node(id).Outputs
			if i := slices.IndexFunc(outs, func(v graph.ValueID) bool { return v != graph.NoValue }); i >= 0 {
				float += g.Value(outs[i]).Shape.ElementsAtLeast()
			}
		}
	}
	return macs, integer, float
}

// millions writes a count in millions with three digits, all of them where there are more.
func millions(n int64) string {
	if m := float64(n) / 1e6; m < 1000 {
		return fmt.Sprintf("%.3g", m)
	}
	return strconv.FormatInt((n+500_000)/1_000_000, 10)
}

// wordsOf says how much ran on integers before and runs after, and names what moved to float.
func wordsOf(o *analysis.OnIntegers) []string {
	share := func(n int64) string {
		return fmt.Sprintf("%s of %s M MACs (%.0f %%)", millions(n), millions(o.MACs), 100*float64(n)/float64(max(o.MACs, 1)))
	}
	list := []string{"on integers: " + share(o.Before) + ", as before"}
	switch {
	case o.After > o.MACs:
		list[0] = fmt.Sprintf("on integers: %s before, %s M MACs after, %.3g times the work", share(o.Before), millions(o.After),
			float64(o.After)/float64(max(o.MACs, 1)))
	case o.Before != o.After:
		list[0] = "on integers: " + share(o.Before) + " before, " + share(o.After) + " after"
	}
	if len(o.Moved) == 0 {
		return list
	}
	names, more := o.Moved, ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n)
	}
	return append(list, fmt.Sprintf("moved to FP32: %s: %s%s", plain.Count(len(o.Moved), "operator"), strings.Join(names, ", "), more))
}
