package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/internal/plain"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Warnings lists what the target's readers take but not all of them, or not well: an opset that only newer ones know, channel
// counts that they pad, and what they compute wrongly.
// g is the graph that set was made for.
func Warnings(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	var list []tqc.Warning
	if v := g.Opset(""); t.Export.MaxOpset > 0 && v > t.Export.MaxOpset {
		list = append(list, tqc.Warning{Value: float64(v),
			Text: fmt.Sprintf("the model has opset %d; older versions of %s read opsets up to %d", v, t.Name, t.Export.MaxOpset)})
	}
	return append(append(list, channelWarning(g, set, t)...), faultWarnings(g, set, t)...)
}

// channelWarning tells how much of the integer work runs on channel counts that the target pads, in one sentence, or nothing
// where the target has no preference or all counts suit it.
func channelWarning(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	m := int64(t.Export.ChannelMultiple)
	if m == 0 {
		return nil
	}
	var concerned, total int64
	nodes := 0
	first := ""
	for _, id := range g.Nodes() {
		n := g.Node(id)
		op := t.Op(n)
		if set.Domains[id] != tqc.DomainInt || op == nil || op.Role != target.Weighted {
			continue
		}
		macs, _ := g.MACsAtLeast(id)
		total += macs
		if in, out := channelsOf(g, n); in%m != 0 || out%m != 0 {
			concerned += macs
			nodes++
			if first == "" {
				first = fmt.Sprintf("%q with %d and %d", n.Name, in, out)
			}
		}
	}
	if nodes == 0 || total == 0 {
		return nil
	}
	share := float64(concerned) / float64(total)
	return []tqc.Warning{{Value: share,
		Text: fmt.Sprintf("%.1f %% of the integer work has channel counts that are not multiples of %d, which %s "+
			"pads (%s, first: %s)", 100*share, m, t.Name, plain.Count(nodes, "operator"), first)}}
}

// channelsOf returns the number of input and output channels of a weighted operator, 0 where they are not known.
func channelsOf(g *graph.Graph, n *graph.Node) (in, out int64) {
	dim := func(v graph.ValueID, axis int) int64 {
		if v == graph.NoValue {
			return 0
		}
		s := g.Value(v).Shape
		axis, ok := graph.Axis(axis, len(s))
		if !ok || !s[axis].Known() {
			return 0
		}
		return s[axis].N
	}
	switch {
	case is(n, "MatMul"):
		return dim(n.Input(0), -1), dim(n.Outputs[0], -1)
	case is(n, "Gemm") && n.Gemm().TransA:
		return dim(n.Input(0), 0), dim(n.Outputs[0], 1)
	}
	return dim(n.Input(0), 1), dim(n.Outputs[0], 1)
}
