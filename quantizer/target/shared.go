package target

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// SharedSum reports whether a convolution or product of matrices on integers without a bias, some size of whose result is not known, has
// several readers or is an output that something reads, too, at once or behind what moves its elements or their signs, or is computed of
// the same tensors twice, limits in front of their pairs aside: OpenVINO (2026.4) then hands the sums without their scales to all but one.
// Swish is one reader there.
func SharedSum(g *graph.Graph, n *graph.Node) bool {
	if !n.IsONNX() || !graph.Slides(n.Op) && n.Op != "MatMul" && n.Op != "Gemm" {
		return false
	}
	for _, x := range n.Inputs[:2] {
		if p := g.Producer(x); p == graph.NoNode || g.Node(p).Op != "DequantizeLinear" {
			return false
		}
	}
	y := n.Outputs[0]
	for u, ok := g.SoleUse(y); ok; u, ok = g.SoleUse(y) {
		r := g.Node(u.Node)
		if u.Index != 0 || !r.IsONNX() || !r.Reshapes() && r.Op != "Transpose" && r.Op != "Identity" && r.Op != "Neg" {
			break
		}
		y = r.Outputs[0]
	}
	uses, readers := g.Uses(y), len(g.Uses(y))
	if g.IsOutput(y) {
		readers++
	}
	if slices.ContainsFunc(uses, func(u graph.Use) bool { return takenApart(g.Node(u.Node)) }) {
		readers++
	}
	// with a Max behind each they become one
	behindMax := len(uses) == 1 && g.Node(uses[0].Node).Op == "Max"
	if !behindMax && slices.ContainsFunc(g.Uses(n.Inputs[1]), func(u graph.Use) bool {
		twin := g.Node(u.Node)
		return twin.ID != n.ID && twin.Op == n.Op && slices.Equal(twin.Inputs[1:], n.Inputs[1:]) &&
			beforeLimits(g, twin.Inputs[0]) == beforeLimits(g, n.Inputs[0])
	}) {
		readers++
	}
	if readers < 2 || !slices.ContainsFunc(g.Value(n.Outputs[0]).Shape, func(d graph.Dim) bool { return !d.Known() }) {
		return false
	}
	if bias := n.Input(2); bias != graph.NoValue {
		c := g.Const(bias)
		if c == nil || c.DType != tensor.Float32 || slices.ContainsFunc(c.F32(), func(x float32) bool { return x != 0 }) {
			return false
		}
	}
	swish := readers == 2 && len(uses) == 2 && slices.ContainsFunc(uses, func(u graph.Use) bool {
		s := g.Node(u.Node)
		return s.Op == "Sigmoid" && slices.ContainsFunc(uses, func(o graph.Use) bool {
			m := g.Node(o.Node)
			return m.Op == "Mul" && slices.Contains(m.Inputs, s.Outputs[0])
		})
	})
	return !swish
}

// limits are operators that OpenVINO leaves out where a pair behind them has their limits.
var limits = []string{"Relu", "Clip", "Identity", "QuantizeLinear", "DequantizeLinear"}

// beforeLimits is what a value is made of by limits and pairs alone.
func beforeLimits(g *graph.Graph, v graph.ValueID) graph.ValueID {
	for p := g.Producer(v); p != graph.NoNode && slices.Contains(limits, g.Node(p).Op); p = g.Producer(v) {
		v = g.Node(p).Inputs[0]
	}
	return v
}

var apart = []string{"LayerNormalization", "ReduceSumSquare", "MeanVarianceNormalization", "LogSoftmax"}

// takenApart reports whether OpenVINO makes an operator of several that read its input.
func takenApart(n *graph.Node) bool {
	return n.IsONNX() && (slices.Contains(apart, n.Op) || n.Op == "Celu" && n.Alpha() != 1)
}
