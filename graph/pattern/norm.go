package pattern

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// n = d / sqrt(v + eps), with d the centred input.
var normalized = []string{
	"r = Sqrt(e)\nn = Div(d, r)",
	"r = Sqrt(e)\nq = Reciprocal(r)\nn = Mul(d, q)",
	"r = Sqrt(e)\nq = Div(1, r)\nn = Mul(d, q)",
	"q = Pow(e, -0.5)\nn = Mul(d, q)",
}

var meanSquare = []string{
	"p = Pow(d, 2)\nv = ReduceMean(p, axes2?) {keepdims ?= 1}\ne = Add(v, scalar eps)",
	"p = Mul(d, d)\nv = ReduceMean(p, axes2?) {keepdims ?= 1}\ne = Add(v, scalar eps)",
}

const centred = "m = ReduceMean(x, axes?) {keepdims ?= 1}\nd = Sub(x, m)"

// LayerNorm normalizes over the last axes to mean 0 and variance 1, then scales by gamma and adds beta where the form has
// them. Captures: x, gamma, beta, eps.
var LayerNorm = &Family{Name: "LayerNorm", Doc: "(x - mean) / sqrt(variance + eps) * gamma + beta over the last axes",
	Forms: parseAll(
		product([]string{centred}, meanSquare, normalized, []string{"s = Mul(n, const gamma)\ny = Add(s, const beta)"}),
		product([]string{centred}, meanSquare, normalized, []string{"y = Mul(n, const gamma)"}),
		product([]string{centred}, meanSquare, normalized),
		[]string{"y = LayerNormalization(x, gamma, beta?)"}),
	accept: overLastAxes}

// RMSNorm divides by the root of the mean square over the last axes, then scales by gamma where the form has it.
// Captures: gamma, eps, and the input as d (x in the form of a single node).
var RMSNorm = &Family{Name: "RMSNorm", Doc: "x / sqrt(mean(x^2) + eps) * gamma over the last axes",
	Forms: parseAll(
		product(meanSquare, normalized, []string{"y = Mul(n, const gamma)"}),
		product(meanSquare, normalized),
		[]string{"y = RMSNormalization|com.microsoft::SimplifiedLayerNormalization|SimplifiedLayerNormalization(x, gamma)"}),
	accept: overLastAxes}

// overLastAxes holds if all ReduceMean of a match reduce the same axes and those are the last ones.
func overLastAxes(g *graph.Graph, m *Match) bool {
	var first []int64
	for _, id := range m.Nodes {
		n := g.Node(id)
		if n.Op != "ReduceMean" {
			continue
		}
		axes, ok := reducedAxes(g, n)
		if !ok || first != nil && !slices.Equal(axes, first) {
			return false
		}
		first = axes
	}
	for i, a := range first {
		if a != int64(i-len(first)) {
			return false
		}
	}
	return true
}

// reducedAxes returns the axes of a reduction counted from the end, ascending; false where they are not known.
func reducedAxes(g *graph.Graph, n *graph.Node) ([]int64, bool) {
	axes := slices.Clone(n.AttrInts("axes"))
	if v := n.Input(1); v != graph.NoValue {
		c := g.Const(v)
		if c == nil || c.DType != tensor.Int64 {
			return nil, false
		}
		axes = slices.Clone(c.I64())
	}
	if len(axes) == 0 {
		return nil, false
	}
	for i, a := range axes {
		if a >= 0 {
			rank, ok := Rank(g, n.Input(0))
			if !ok {
				return nil, false
			}
			axes[i] = a - int64(rank)
		}
	}
	slices.Sort(axes)
	return axes, true
}
