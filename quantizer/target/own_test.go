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
	for _, wrong := range []target.Op{{Type: "own::Flip", Role: target.Weighted}, {Type: "::Flip", Role: target.Passive},
		{Type: "own::", Role: target.Passive},
		{Type: "own::Flip", Role: target.Passive, FixedScale: 1}} {
		p.Ops[0] = wrong
		require.ErrorContains(t, p.Validate(), "is domain::Name, passive, and nothing else")
	}
}

// Weights of the convolutions that Winograd computes have 6 bits, the others 8.
func TestReducedWeights(t *testing.T) {
	for attrs, want := range map[string]int32{"": 31, "{strides=[2,2]}": 127, "{dilations=[1,2]}": 127,
		"{strides=[1,1], dilations=[1,1], pads=[1,1,1,1]}": 31} {
		g := graphtest.Parse(t, "input x: f32[1,4,8,8]\nconst w: f32[4,4,3,3] = normal(1)\ny = Conv(x, w) "+attrs+"\noutput y")
		c := target.NCNNInt8.WeightConfig(g, 0, 1)
		require.Equal(t, [2]int32{-want, want}, [2]int32{c.QMin, c.QMax}, attrs)
	}
	tg := target.NCNNInt8
	tg.ReducedWeight = [2]int32{}
	require.ErrorContains(t, tg.Validate(), "reduced is said of")
}
