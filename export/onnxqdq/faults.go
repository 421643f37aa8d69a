package onnxqdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// fault is what the reader of a target's files is known to compute wrongly although the file is right (docs/engines.md).
type fault struct {
	platform string
	has      func(g *graph.Graph, set *tqc.Set, n *graph.Node) bool
	text     string // completes a sentence that starts with the operator's name
}

var faults = []fault{
	{"openvino_int8", patches, "slides over 32 channels in steps of its kernel, 4 or more: on processors with AMX " +
		"OpenVINO 2026.4 computes it " +
		"wrongly on integers; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI there, or leave it in float (qwb set PLAN NODE domain=fp32)"},
}

// faultWarnings is a warning for each fault of the engine that some operator meets, with the first of them.
func faultWarnings(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	var list []tqc.Warning
	for _, f := range faults {
		n, first := 0, ""
		for _, id := range g.Nodes() {
			if node := g.Node(id); f.platform == t.Name && f.has(g, set, node) {
				if n++; n == 1 {
					first = node.Name
				}
			}
		}
		if n > 0 {
			list = append(list, tqc.Warning{Node: first, Value: float64(n), Text: fmt.Sprintf("%q (operators like it: %d) %s", first, n, f.text)})
		}
	}
	return list
}

// patches: a convolution of 32 input channels whose kernel, of 4 or more, is its stride.
func patches(g *graph.Graph, set *tqc.Set, n *graph.Node) bool {
	if n.Op != "Conv" || set.Domains[n.ID] != tqc.DomainInt {
		return false
	}
	shape, strides := g.Value(n.Inputs[1]).Shape, n.AttrInts("strides")
	return len(shape) == len(strides)+2 && shape[1].N == 32 && !slices.ContainsFunc(shape[2:], func(d graph.Dim) bool { return d.N < 4 }) &&
		slices.EqualFunc(shape[2:], strides, func(d graph.Dim, s int64) bool { return d.N == s })
}
