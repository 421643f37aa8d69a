package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// openScales reports whether a Mul or Div by a constant for each channel (axis 1) is rounded where a size is open: 2026.4 takes the factors
// of other channels then (NSR 0.03 to 1; in float in front, too).
func openScales(g *graph.Graph, q *graph.Node) bool {
	p := g.Producer(q.Inputs[0])
	if p == graph.NoNode || !is(g.Node(p), "Mul", "Div") || !openSize(g, q.Inputs[0]) {
		return false
	}
	rank := len(g.Value(q.Inputs[0]).Shape)
	return slices.ContainsFunc(g.Node(p).Inputs, func(x graph.ValueID) bool {
		c := constantIn(g, x)
		return rank >= 2 && c != nil && eachChannel(c, rank)
	})
}

// eachChannel reports whether a constant that meets a tensor of so many axes has a number for each element of axis 1.
func eachChannel(c *tensor.Tensor, rank int) bool {
	at := len(c.Shape) - (rank - 1)
	return at >= 0 && at < len(c.Shape) && c.Shape[at] > 1 && c.Len() == c.Shape[at]
}

// otherColumns reports whether a constant with several elements meets what one pair rounded of a product of matrices, and that has one
// column, or the constant a number for each channel: 2026.4 takes the last axis for that of the constant and does not open.
func otherColumns(g *graph.Graph, n *graph.Node) bool {
	v := n.Input(0)
	for range 2 {
		p := g.Producer(v)
		if p == graph.NoNode || !is(g.Node(p), dequantizeLinear, quantizeLinear) {
			break
		}
		v = g.Node(p).Inputs[0]
	}
	p, shape := g.Producer(v), g.Value(v).Shape
	if p == graph.NoNode || !is(g.Node(p), "MatMul") || len(shape) == 0 {
		return false
	}
	c := constantIn(g, n.Input(1))
	return c != nil && c.Len() > 1 && (shape[len(shape)-1].N == 1 || len(shape) > 2 && eachChannel(c, len(shape)))
}

// sizesOut reports whether a convolution's result is rounded where a size is open, and an output of the network is made of sizes: 2026.4
// takes the result in another order of axes then (NSR 1 to 2; with a Shape itself as the output it does not).
func sizesOut(g *graph.Graph, q *graph.Node) bool {
	p := g.Producer(q.Inputs[0])
	for p != graph.NoNode && is(g.Node(p), "Relu", "LeakyRelu", "PRelu", "Clip", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Add", "Mul") {
		p = g.Producer(g.Node(p).Inputs[0])
	}
	if p == graph.NoNode || !graph.Slides(g.Node(p).Op) || !openSize(g, q.Inputs[0]) {
		return false
	}
	var ofSizes func(v graph.ValueID) bool
	ofSizes = func(v graph.ValueID) bool {
		p := g.Producer(v)
		if p == graph.NoNode {
			return false
		}
		n := g.Node(p)
		return is(n, "Shape") || is(n, "Gather", "Concat", "Cast", "Slice", "Squeeze", "Unsqueeze", "Add", "Mul") &&
			slices.ContainsFunc(n.Inputs, ofSizes)
	}
	return slices.ContainsFunc(g.Outputs, ofSizes)
}

func openSize(g *graph.Graph, v graph.ValueID) bool {
	return slices.ContainsFunc(g.Value(v).Shape, func(d graph.Dim) bool { return !d.Known() })
}

// constantIn is the constant that x is, or that is dequantized to x; nil: neither.
func constantIn(g *graph.Graph, x graph.ValueID) *tensor.Tensor {
	if x == graph.NoValue {
		return nil
	}
	if p := g.Producer(x); p != graph.NoNode && is(g.Node(p), dequantizeLinear) {
		x = g.Node(p).Inputs[0]
	}
	return g.Const(x)
}
