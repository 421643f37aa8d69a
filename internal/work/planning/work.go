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
	c, err := analysis.CostOf(g, set, t, nil)
	if err != nil || len(c.MACs) == 0 {
		return nil
	}
	share := c.Integer()
	return &share
}

// warnFloatProducts says which products of integers the target multiplies in float: those of another width, and those with a zero point or
// no sign.
func warnFloatProducts(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	b, err := t.Bind(g)
	if err != nil {
		return nil
	}
	var warnings []tqc.Warning
	var others []string
	var list []graph.NodeID
	for _, id := range b.Order {
		switch {
		case set.Domains[id] != tqc.DomainInt:
		case b.OtherWidth(id, set):
			others = append(others, g.Node(id).Name)
		case !b.MultipliesIntegers(id, set):
			list = append(list, id)
		}
	}
	if len(others) > 0 {
		warnings = []tqc.Warning{{Node: others[0], Text: fmt.Sprintf("%s multiplies integers of eight bits alone: %s with others run in float, "+
			"between roundings, which takes longer than domain=fp32", t.Name, plain.Count(len(others), "operator"))}}
	}
	if len(list) == 0 {
		return warnings
	}
	return append(warnings, tqc.Warning{Node: g.Node(list[0]).Name,
		Text: fmt.Sprintf("%s computes %s with integers on both sides in float: a "+
			"factor has a zero point, or no sign; activations=int8-sym-tensor on its inputs mends that", t.Name, plain.Count(len(list), "product"))})
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
