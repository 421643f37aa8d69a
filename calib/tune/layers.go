package tune

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/overlay"
	"qwb/quantizer/tqc"
)

// biasInput is where the bias of Conv, ConvTranspose and Gemm stands.
const biasInput = 2

// layer is an operator with a bias that may be tuned: one number for each channel, which is axis 1 of its output.
type layer struct {
	node     graph.NodeID
	output   graph.ValueID
	channels int
}

// layers lists the quantized operators of g that have a constant bias of their own, in graph order.
func layers(g *graph.Graph, set *tqc.Set) ([]layer, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var out []layer
	for _, id := range order {
		n := g.Node(id)
		c := biasChannels(g, id)
		b := n.Input(biasInput)
		if c == 0 || set.Domains[id] != tqc.DomainINT8 || b == graph.NoValue {
			continue
		}
		t := g.Const(b)
		if _, sole := g.SoleUse(b); t == nil || !sole || t.DType != tensor.Float32 || t.Len() != c || set.Params(set.Input(id, biasInput)).Codes != nil {
			continue
		}
		out = append(out, layer{id, n.Outputs[0], c})
	}
	return out, nil
}

// biasChannels is how many channels the bias of an operator has or would have; 0 for operators without one.
func biasChannels(g *graph.Graph, id graph.NodeID) int {
	n := g.Node(id)
	w := g.Const(n.Input(1))
	if n.Domain != "" && n.Domain != "ai.onnx" || w == nil || w.DType != tensor.Float32 || len(n.Outputs) != 1 {
		return 0
	}
	switch {
	case n.Op == "Conv":
		return w.Shape[0]
	case n.Op == "ConvTranspose":
		return w.Shape[1] * int(n.AttrInt("group", 1))
	case n.Op == "Gemm" && n.AttrFloat("beta", 1) == 1 && len(w.Shape) == 2:
		if n.AttrInt("transB", 0) != 0 {
			return w.Shape[0]
		}
		return w.Shape[1]
	}
	return 0
}

// AddBiases gives the quantized operators of a graph that have none a bias of zeros, and constants that several share to each of them
// alone, and names the nodes that were given one. Tuning starts on such a graph.
func AddBiases(g *graph.Graph, set *tqc.Set) map[string]bool {
	added := map[string]bool{}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		c := biasChannels(g, id)
		if c == 0 || set.Domains[id] != tqc.DomainINT8 {
			continue
		}
		switch v := n.Input(biasInput); {
		case v == graph.NoValue:
			overlay.AddBias(g, id, biasInput, []int{c})
			added[g.Node(id).Name] = true
		case g.Const(v) != nil:
			if _, sole := g.SoleUse(v); !sole {
				g.SetInput(id, biasInput, g.AddConst(g.Value(v).Name, g.Const(v)))
			}
		}
	}
	return added
}

// moment is what is kept of an operator's output on one sample: by channel the sum, and how many elements a channel has; the sum of all
// squares.
type moment struct {
	sums    []float64
	count   int
	squares float64
}

// momentOf adds up an output whose axis 1 has the channels; elements are added in the order they lie in memory.
func momentOf(t *tensor.Tensor) moment {
	outer, n, inner := t.Blocks(1)
	m := moment{sums: make([]float64, n), count: outer * inner}
	x := t.F32()
	if inner == 1 {
		for ; len(x) > 0; x = x[n:] {
			for c, v := range x[:n] {
				m.sums[c] += float64(v)
				m.squares += float64(float64(v) * float64(v))
			}
		}
		return m
	}
	for o := range outer {
		for c := range n {
			var sum, squares float64
			for _, v := range x[(o*n+c)*inner:][:inner] {
				sum += float64(v)
				squares += float64(float64(v) * float64(v))
			}
			m.sums[c] += sum
			m.squares += squares
		}
	}
	return m
}
