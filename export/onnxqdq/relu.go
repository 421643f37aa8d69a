package onnxqdq

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// relus writes every Relu in front of a Q of 8-bit floats as a Max with 0, and every Clip as a Max and a Min, which are the same. ONNX
// Runtime (1.32, its fusions of Relu and of Clip with QuantizeLinear) takes the zero point of these types for that of an unsigned integer,
// below which Q would clip by itself, and drops the Relu: negative numbers come through. With a Clip there the session does not start.
func (b *builder) relus() error {
	zero := graph.NoValue
	for _, id := range b.g.Nodes() {
		n := b.g.Node(id)
		if !is(n, "Relu", "Clip") || !b.beforeFloat8(n) {
			continue
		}
		if n.Op == "Clip" {
			if err := b.clip(id); err != nil {
				return err
			}
			continue
		}
		if zero == graph.NoValue {
			zero = b.g.AddConst(b.g.FreshName("zero"), tensor.New(tensor.Float32))
		}
		n.Op = "Max"
		b.g.SetInput(id, 1, zero)
	}
	return nil
}

// beforeFloat8 reports whether a Q of 8-bit floats reads output 0 of n.
func (b *builder) beforeFloat8(n *graph.Node) bool {
	for _, u := range b.g.Uses(n.Outputs[0]) {
		if q := b.g.Node(u.Node); is(q, quantizeLinear) && u.Index == 0 && isFloat8(b.g, q) {
			return true
		}
	}
	return false
}

// clip makes a Clip, of an opset that has its limits as inputs, a Min behind a Max; without one of the limits the other alone.
func (b *builder) clip(id graph.NodeID) error {
	n := b.g.Node(id)
	x, lo, hi := n.Input(0), n.Input(1), n.Input(2)
	switch {
	case lo == graph.NoValue && hi == graph.NoValue:
		return nil
	case hi == graph.NoValue:
		n.Op = "Max"
		return nil
	case lo != graph.NoValue:
		v := b.g.Value(n.Outputs[0])
		above, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(v.Name + "_Max"), DType: v.DType, Shape: v.Shape})
		if err != nil {
			return err
		}
		if _, err = b.g.AddNode(graph.Node{Name: b.g.FreshName(n.Name + "_Max_node"), Op: "Max", Inputs: []graph.ValueID{x, lo},
			Outputs: []graph.ValueID{above}}); err != nil {
			return err
		}
		x, n = above, b.g.Node(id)
	}
	n.Op = "Min"
	b.g.SetInput(id, 0, x)
	b.g.SetInput(id, 1, hi)
	b.g.SetInput(id, 2, graph.NoValue)
	return nil
}

// isFloat8 reports whether a Q, which has a zero point, computes 8-bit floats.
func isFloat8(g *graph.Graph, q *graph.Node) bool {
	z := q.Input(2)
	return z != graph.NoValue && (g.Value(z).DType == tensor.Float8E4M3FN || g.Value(z).DType == tensor.Float8E5M2)
}
