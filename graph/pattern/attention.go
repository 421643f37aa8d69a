package pattern

import "qwb/graph"

// Attention is softmax(q k * scale + mask) v, the softmax over the last axis. Captures: q, k (as it enters the product,
// transposed already), v, and scale, mask, fill, keep where the form has them. A scale applied to q or k beforehand is part of them.
var Attention = &Family{Name: "Attention", Doc: "MatMul, scale, mask, Softmax, MatMul",
	Forms: parseAll(product(
		[]string{"s = MatMul(q, k)"},
		[]string{"a = Mul(s, scalar scale)\nb = Add(a, mask)", "a = Div(s, scalar scale)\nb = Add(a, mask)",
			"a = Mul(s, scalar scale)\nb = Where(keep, a, fill)", "a = Div(s, scalar scale)\nb = Where(keep, a, fill)",
			"a = Mul(s, scalar scale)\nb = Where(keep, fill, a)", "a = Div(s, scalar scale)\nb = Where(keep, fill, a)",
			"b = Add(s, mask)", "b = Where(keep, s, fill)", "b = Where(keep, fill, s)",
			"b = Mul(s, scalar scale)", "b = Div(s, scalar scale)"},
		[]string{"p = Softmax(b)\ny = MatMul(p, v)"}),
		[]string{"s = MatMul(q, k)\np = Softmax(s)\ny = MatMul(p, v)", "y = Attention(q, k, v, ...)"}),
	accept: acceptAttention}

// acceptAttention holds if the products are of activations and the softmax runs over the last axis.
func acceptAttention(g *graph.Graph, m *Match) bool {
	for _, name := range []string{"q", "k", "v"} {
		if g.Const(m.Value(name)) != nil {
			return false
		}
	}
	id := m.Node("p")
	if id == graph.NoNode {
		return true
	}
	n := g.Node(id)
	axis, _ := graph.SoftmaxAxis(n, g.Opset(""))
	if axis == -1 {
		return true
	}
	rank, ok := Rank(g, n.Input(0))
	return ok && axis == rank-1
}
