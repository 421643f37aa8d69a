package onnx

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// typeIR says since which IR version an element type exists; those not listed are older than all versions in use.
var typeIR = map[tensor.DType]int64{
	tensor.BFloat16: 4, tensor.Float8E4M3FN: 9, tensor.Float8E4M3FNUZ: 9, tensor.Float8E5M2: 9, tensor.Float8E5M2FNUZ: 9,
	tensor.Uint4: 10, tensor.Int4: 10, tensor.Float4E2M1: 11, tensor.Float8E8M0: 12, tensor.Uint2: 13, tensor.Int2: 13,
}

// MinIRVersion returns the lowest IR version that can express g: its element types, initializers that are no graph inputs
// (4), and overloaded functions (10). Runtimes refuse versions that are too new, so nothing above it should be written
// without need. The result is 3 or more.
func MinIRVersion(g *graph.Graph) int64 { return minIR(g, true) }

func minIR(g *graph.Graph, main bool) int64 {
	need := int64(3)
	inputs := make(map[graph.ValueID]bool, len(g.Inputs))
	for _, v := range g.Inputs {
		inputs[v] = true
	}
	for _, id := range g.Values() {
		need = max(need, typeIR[g.Value(id).DType])
		if main && g.Const(id) != nil && !inputs[id] {
			need = max(need, 4)
		}
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if n.Overload != "" {
			need = max(need, 10)
		}
		for i := range n.Attrs {
			if t := n.Attrs[i].T; t != nil {
				need = max(need, typeIR[t.DType])
			}
			for _, t := range n.Attrs[i].Tensors {
				need = max(need, typeIR[t.DType])
			}
		}
		for _, sub := range n.Subgraphs() {
			need = max(need, minIR(sub, false))
		}
	}
	return need
}
