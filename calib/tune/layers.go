package tune

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/overlay"
	"qwb/quantizer/tqc"
)

// layer is a quantized operator that sums products of its input with a constant weight.
type layer struct {
	node     graph.NodeID
	input    graph.ValueID
	output   graph.ValueID
	axis     int        // of the output's channels; -1 is the last
	channels int        // of the bias, which may be tuned; 0 where there is none
	weight   tqc.SlotID // of the weight; NoSlot where it is not quantized, or not by scales of its own
}

// layers lists the quantized operators of g with a weight or a bias that may be tuned, in graph order.
func layers(g *graph.Graph, set *tqc.Set) ([]layer, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var out []layer
	for _, id := range order {
		if set.Domains[id] != tqc.DomainInt || !weighted(g, id) {
			continue
		}
		n := g.Node(id)
		l := layer{node: id, input: n.Inputs[0], output: n.Outputs[0], axis: 1, channels: tunableBias(g, set, id),
			weight: tunableWeight(g, set, id)}
		if !graph.Slides(n.Op) {
			l.axis = -1
		}
		if l.channels > 0 || l.weight != tqc.NoSlot {
			out = append(out, l)
		}
	}
	return out, nil
}

// weighted reports whether an operator is a Conv, ConvTranspose, Gemm or MatMul with a constant weight and an input that is computed.
func weighted(g *graph.Graph, id graph.NodeID) bool {
	n := g.Node(id)
	w := g.Const(n.Input(1))
	if !n.IsONNX() || w == nil || w.DType != tensor.Float32 || len(n.Outputs) != 1 ||
		n.Input(0) == graph.NoValue || g.Const(n.Inputs[0]) != nil {
		return false
	}
	_, ok := matrixOf(n, w)
	return ok
}

// tunableBias is the length of the bias of an operator, 0 where it has none of its own that may change.
func tunableBias(g *graph.Graph, set *tqc.Set, id graph.NodeID) int {
	c, v := biasChannels(g, id), g.Node(id).Input(graph.BiasInput)
	if c == 0 || v == graph.NoValue {
		return 0
	}
	t := g.Const(v)
	if _, sole := g.SoleUse(v); t == nil || !sole || t.DType != tensor.Float32 || t.Len() != c ||
		set.Params(set.Input(id, graph.BiasInput)).Codes != nil {
		return 0
	}
	return c
}

// tunableWeight is the slot of the weight of an operator, NoSlot where the weight is not quantized, or not its own.
func tunableWeight(g *graph.Graph, set *tqc.Set, id graph.NodeID) tqc.SlotID {
	s := set.Input(id, graph.WeightInput)
	if s == tqc.NoSlot || !set.Slot(s).State().Quantizes() || set.Root(s) != s {
		return tqc.NoSlot
	}
	if c := &set.Slot(s).Config; !c.Integer() || c.Blocks != tqc.FreeScales {
		return tqc.NoSlot // methods look for codes of integers, and for scales that can be any number
	}
	if _, sole := g.SoleUse(set.Slot(s).Value); !sole {
		return tqc.NoSlot
	}
	return s
}

// biasChannels is how many channels the bias of an operator has or would have; 0 for operators without one.
func biasChannels(g *graph.Graph, id graph.NodeID) int {
	n := g.Node(id)
	if !weighted(g, id) || n.Op == "MatMul" || n.Gemm().Beta != 1 {
		return 0
	}
	m, _ := matrixOf(n, g.Const(n.Inputs[graph.WeightInput]))
	return m.Out
}

// Prepare makes a graph ready to be tuned: quantized operators that have no bias are given one of zeros, and constants that several
// operators share become each operator's own. It names the nodes that were given a bias. What the graph computes stays the same.
func Prepare(g *graph.Graph, set *tqc.Set) map[string]bool {
	added := map[string]bool{}
	for _, id := range g.Nodes() {
		if set.Domains[id] != tqc.DomainInt || !weighted(g, id) {
			continue
		}
		g.OwnConst(id, graph.WeightInput, g.Const(g.Node(id).Inputs[graph.WeightInput]))
		c := biasChannels(g, id)
		switch v := g.Node(id).Input(graph.BiasInput); {
		case c == 0:
		case v == graph.NoValue:
			overlay.AddBias(g, id, graph.BiasInput, []int{c})
			added[g.Node(id).Name] = true
		case g.Const(v) != nil:
			g.OwnConst(id, graph.BiasInput, g.Const(v))
		}
	}
	return added
}
