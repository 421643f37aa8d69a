package dispatch

import "qwb/graph"

// elements returns the size of a tensor: what was observed of one with open dimensions, else with 1 for each that is not known. known is
// false if one other than the first (the batch) is neither.
func (a *Assignment) elements(v graph.ValueID) (n int64, known bool) {
	n, open, known := count(a.bound.Graph.Value(v).Shape)
	if open && a.observed != nil {
		if seen, ok := a.observed(v); ok {
			return seen, true
		}
	}
	return n, known
}

// macs are the multiply-accumulates of a node: of one with constant weights and an open size as many for each element of its output as
// there are of a closed one.
func (a *Assignment) macs(id graph.NodeID) (n int64, known bool) {
	g := a.bound.Graph
	n, known = g.MACsAtLeast(id)
	x := g.Node(id)
	if (x.Op != "Conv" && x.Op != "Gemm" && x.Op != "MatMul") || g.Const(x.Input(graph.WeightInput)) == nil {
		return n, known
	}
	one, open, _ := count(g.Value(x.Outputs[0]).Shape)
	if seen, ok := a.elements(x.Outputs[0]); open && ok && one > 0 {
		return n / one * seen, true
	}
	return n, known
}

func count(s graph.Shape) (n int64, open, known bool) {
	n, open, known = 1, s == nil, s != nil
	for i, d := range s {
		if d.Known() {
			n *= d.N
		} else {
			open, known = true, known && i == 0
		}
	}
	return n, open, known
}
