package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

func twice() *graph.Operator {
	return &graph.Operator{OpSpec: graph.OpSpec{Domain: "own", Name: "Twice", MinIn: 1, Kind: graph.KindElementwise,
		Infer: func(c *graph.InferCtx) error { c.SetOut(0, c.DType(0), c.Shape(0)); return nil }},
		Eval: func(_ *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil }}
}

// Adopted operators are known in the graph, its subgraphs, copies and extracts, and what cannot be one is refused.
func TestAdopt(t *testing.T) {
	g, err := graph.Parse(`graph g
opset 17
opset own 1
input x: f32[N,3]
input c: bool[]
a = own::Twice(x)
y = If(c) {then_branch=graph { b = own::Twice(a); output b }, else_branch=graph { d = Identity(a); output d }}
output y
`)
	require.NoError(t, err)
	a, _ := g.Lookup("a")
	id := g.Producer(a)
	require.Nil(t, g.Node(id).Spec())
	require.NoError(t, g.Adopt([]*graph.Operator{twice()}))
	require.Empty(t, graph.InferShapes(g))
	y, _ := g.Lookup("y")
	require.Equal(t, "f32[N,3]", graph.FormatType(g.Value(y).DType, g.Value(y).Shape))
	require.Equal(t, "Twice", g.Clone().Node(id).Operator().Name)
	x, _ := g.Lookup("x")
	part, err := graph.Extract(g, []graph.ValueID{x}, []graph.ValueID{a})
	require.NoError(t, err)
	require.Equal(t, graph.KindElementwise, part.Node(part.Nodes()[0]).Spec().Kind)

	for _, c := range []struct {
		change func(*graph.Operator)
		want   string
	}{
		{func(o *graph.Operator) { o.Name = "" }, "needs a name"},
		{func(o *graph.Operator) { o.Eval = nil }, "function that computes it"},
		{func(o *graph.Operator) { o.Domain = "" }, "a domain of its own"},
		{func(o *graph.Operator) { o.Domain = "ai.onnx" }, "a domain of its own"},
		{func(o *graph.Operator) { o.Domain = "a:b" }, "has a colon"},
		{func(o *graph.Operator) { o.Domain, o.Name = "com.microsoft", "QGemm" }, "is built in"},
	} {
		o := twice()
		c.change(o)
		require.ErrorContains(t, g.Adopt([]*graph.Operator{o}), c.want)
	}
	require.ErrorContains(t, g.Adopt([]*graph.Operator{twice(), twice()}), "stands twice")
}
