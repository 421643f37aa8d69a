package analysis

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// own reports whether a node is the graph's, and not one of a subgraph with the same number.
func (e *explainer) own(n *graph.Node) bool {
	return int(n.ID) < e.g.NumNodes() && e.g.Node(n.ID).Name == n.Name && e.g.Node(n.ID).Op == n.Op
}

// looked computes a table step on real numbers.
func looked(p *lower.Program, s *lower.Step, x *tensor.Tensor) (*tensor.Tensor, error) {
	op, ok := s.Op.(*lower.Table)
	in, out := p.Tensors[s.Inputs[0]].Encoding, p.Tensors[s.Outputs[0]].Encoding
	if !ok || in == nil || out == nil || x.DType != tensor.Float32 {
		return nil, fmt.Errorf("%s is no input of a table", x.Type())
	}
	entries := op.Codes.Integers()
	y := x.Clone()
	from, to := in.Grid(), out.Grid()
	for i, v := range x.F32() {
		y.F32()[i] = to.Dequantize(entries[int(from.Quantize(v))&(len(entries)-1)])
	}
	return y, nil
}
