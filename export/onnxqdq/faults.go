package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// faultWarnings is a warning for each fault of the engine that some operator meets and nothing guards against, with the first of them.
func faultWarnings(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	var list []tqc.Warning
	for _, f := range target.FaultsOf(t.Name, "") {
		n, first := 0, ""
		for _, id := range g.Nodes() {
			if f.Warning != "" && f.Met(target.OfPlan(g, set, id)) {
				if n++; n == 1 {
					first = g.Node(id).Name
				}
			}
		}
		if n > 0 {
			text := fmt.Sprintf("%q (operators like it: %d) %s", first, n, f.Warning)
			list = append(list, tqc.Warning{Node: first, Value: float64(n), Text: text})
		}
	}
	return list
}
