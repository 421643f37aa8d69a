package onnxqdq

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// relus writes every Relu in front of a Q of 8-bit floats as a Max with 0, which is the same. ONNX Runtime (1.32, its fusion of Relu and
// QuantizeLinear) takes the zero point of these types for that of an unsigned integer, below which Q would clip by itself, and drops the
// Relu: negative numbers come through. With a Clip in its place the session does not start.
func (b *builder) relus() {
	zero := graph.NoValue
	for _, id := range b.g.Nodes() {
		n := b.g.Node(id)
		if !is(n, "Relu") {
			continue
		}
		for _, u := range b.g.Uses(n.Outputs[0]) {
			q := b.g.Node(u.Node)
			if !is(q, quantizeLinear) || u.Index != 0 || !isFloat8(b.g, q) {
				continue
			}
			if zero == graph.NoValue {
				zero = b.g.AddConst(b.g.FreshName("zero"), tensor.New(tensor.Float32))
			}
			n.Op = "Max"
			b.g.SetInput(id, 1, zero)
			break
		}
	}
}

// isFloat8 reports whether a Q, which has a zero point, computes 8-bit floats.
func isFloat8(g *graph.Graph, q *graph.Node) bool {
	z := q.Input(2)
	return z != graph.NoValue && (g.Value(z).DType == tensor.Float8E4M3FN || g.Value(z).DType == tensor.Float8E5M2)
}
