package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

// An operator that a program brings along stays float unless a row lets scales through it, which its nodes have to deserve.
func TestOwnOperator(t *testing.T) {
	flip := &graph.Operator{OpSpec: graph.OpSpec{Domain: "own", Name: "Flip",
		Passive: func(_ *graph.Graph, n *graph.Node) bool { return n.AttrInt("scaled", 0) == 0 }},
		Eval: func(_ *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil }}
	g := graphtest.Parse(t, `graph g
opset 17
opset own 1
input x: f32[3]
a = own::Flip(x)
b = own::Flip(a) {scaled=1}
output b
`)
	a, b := graph.NodeID(0), graph.NodeID(1)
	p := target.ONNXRuntime
	p.Name, p.Ops = "own", append([]target.Op{{Type: "own::Flip", Role: target.Passive}}, p.Ops...)
	require.NoError(t, p.Validate())
	require.Nil(t, p.Op(g.Node(a)), "the graph does not know the operator")
	require.NoError(t, g.Adopt([]*graph.Operator{flip}))
	op, err := p.Supports(g, a)
	require.NoError(t, err)
	require.Equal(t, target.Passive, op.Role)
	_, err = p.Supports(g, b)
	require.ErrorContains(t, err, "does not only move or select")
	_, err = target.ONNXRuntime.Supports(g, a)
	require.ErrorContains(t, err, "stays float")

	again, err := target.Parse(p.YAML())
	require.NoError(t, err)
	require.Equal(t, p.Hash(), again.Hash())
	for _, wrong := range []target.Op{{Type: "own::Flip", Role: target.Weighted}, {Type: "::Flip", Role: target.Passive}, {Type: "own::", Role: target.Passive},
		{Type: "own::Flip", Role: target.Passive, FixedScale: 1}} {
		p.Ops[0] = wrong
		require.ErrorContains(t, p.Validate(), "is domain::Name, passive, and nothing else")
	}
}
