package onnxqdq

import (
	"math"
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

// lessThanAStep reports whether a Q rounds what a DQ without a zero point gives plus or less a constant, by a scale at most 1 % off,
// so that 0 of the first lies less than a step beside the lowest number of the second: 2026.4 takes the one grid for the other, and
// codes are one off.
func lessThanAStep(g *graph.Graph, q *graph.Node) bool {
	p := g.Producer(q.Inputs[0])
	if p == graph.NoNode || !is(g.Node(p), "Add", "Sub") {
		return false
	}
	for i, x := range g.Node(p).Inputs {
		c, to := numbersIn(g, g.Node(p).Inputs[1-i]), g.Const(q.Input(1))
		if c == nil || to == nil || to.Len() != 1 || !dequantized(g, x) || i == 1 && is(g.Node(p), "Sub") {
			continue
		}
		dq, zero, step := g.Node(g.Producer(x)), g.Const(q.Input(2)), float64(to.F32()[0])
		from := g.Const(dq.Inputs[1])
		if from == nil || from.Len() != 1 || hasZeroPoint(g, dq) || math.Abs(step/float64(from.F32()[0])-1) > 0.01 {
			continue
		}
		sign, lowest := 1.0, 0.0
		if is(g.Node(p), "Add") {
			sign = -1
		}
		if zero != nil {
			lowest = float64(zero.Integers()[0]) * step
		}
		if slices.ContainsFunc(c, func(v float64) bool { return math.Abs(sign*v-lowest) < step }) {
			return true
		}
	}
	return false
}

// numbersIn are the numbers of a constant that x is, or that is dequantized to x without a zero point; nil: neither.
func numbersIn(g *graph.Graph, x graph.ValueID) (out []float64) {
	c := constantIn(g, x)
	switch {
	case c == nil:
	case c.DType == tensor.Float32 && g.Const(x) != nil:
		for _, v := range c.F32() {
			out = append(out, float64(v))
		}
	case dequantized(g, x):
		dq := g.Node(g.Producer(x))
		if s := g.Const(dq.Inputs[1]); s != nil && s.Len() == 1 && !hasZeroPoint(g, dq) {
			for _, q := range c.Integers() {
				out = append(out, float64(q)*float64(s.F32()[0]))
			}
		}
	}
	return out
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
