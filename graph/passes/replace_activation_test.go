package passes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
)

// swishes has activations in several forms, and what looks like them.
const swishes = `opset 17
input x: f32[2,5]
const three: f32[] = 3
const zero: f32[] = 0
const six: f32[] = 6
const two: f32[] = 2
s = Sigmoid(x); a = Mul(x, s) "silu"
b = Mul(a, two); t = Sigmoid(b); c = Mul(a, t) "steeper"
d = Add(c, three); e = Clip(d, zero, six); f = Mul(c, e); h = Div(f, six) "hard"
u = Sigmoid(h) "gate"
v = Clip(u, zero, six) "relu6"
w = Clip(v, zero, two) "other"
output w`

// What is replaced computes what the substitute is, at every node that is meant and at no other.
func TestReplaceActivation(t *testing.T) {
	const head = "opset 17\ninput x: f32[2,5]\nconst three: f32[] = 3\nconst zero: f32[] = 0\nconst six: f32[] = 6\nconst two: f32[] = 2\n"
	rest := map[string]string{
		"silu":  "s = Sigmoid(x); a = Mul(x, s)\n",
		"steep": "b = Mul(a, two); t = Sigmoid(b); c = Mul(a, t)\n",
		"hard":  "d = Add(c, three); e = Clip(d, zero, six); f = Mul(c, e); h = Div(f, six)\n",
		"gate":  "u = Sigmoid(h)\n",
		"relu6": "v = Clip(u, zero, six)\n",
		"other": "w = Clip(v, zero, two)\noutput w",
	}
	text := func(changed, as string) string {
		out := head
		for _, k := range []string{"silu", "steep", "hard", "gate", "relu6", "other"} {
			if k == changed {
				out += as + "\n"
			} else {
				out += rest[k]
			}
		}
		return out
	}
	for _, c := range []struct{ from, to, node, at, as string }{
		{"SiLU", "HardSwish", "silu", "silu", "a = HardSwish(x)"},
		{"Swish", "Relu", "silu", "silu", "a = Relu(x)"},
		{"HardSwish", "Relu6", "hard", "hard", "h = Clip(c, zero, six)"},
		{"HardSwish", "SiLU", "hard", "hard", "k = Sigmoid(c); h = Mul(c, k)"},
		{"Sigmoid", "HardSigmoid", "gate", "gate", "u = HardSigmoid(h) {alpha=0.16666667, beta=0.5}"},
		{"Relu6", "Tanh", "relu6", "relu6", "v = Tanh(u)"},
	} {
		g := parseGraph(t, swishes)
		nodes, err := ReplaceActivation(g, c.from, c.to, nil)
		require.NoError(t, err)
		require.Equal(t, []string{c.node}, nodes)
		require.NoError(t, g.Check())
		equalOutputs(t, parseGraph(t, text(c.at, c.as)), g, 1e-6)
	}
	// Before opset 14 there is no HardSwish, before 11 Clip has attributes.
	g := parseGraph(t, "opset 10\ninput x: f32[3]\ns = Sigmoid(x); a = Mul(x, s); t = Tanh(a)\noutput t")
	_, err := ReplaceActivation(g, "SiLU", "HardSwish", nil)
	require.NoError(t, err)
	_, err = ReplaceActivation(g, "Tanh", "HardTanh", nil)
	require.NoError(t, err)
	requireOps(t, g, "HardSigmoid Mul Clip")
	equalOutputs(t, parseGraph(t, "opset 14\ninput x: f32[3]\nconst lo: f32[] = -1\nconst hi: f32[] = 1\n"+
		"a = HardSwish(x); t = Clip(a, lo, hi)\noutput t"), g, 1e-6)

	g = parseGraph(t, swishes)
	nodes, err := ReplaceActivation(g, "SiLU", "Relu", func(graph.NodeID) bool { return false })
	require.NoError(t, err)
	require.Empty(t, nodes)
	for _, c := range [][3]string{{"Softmax", "Relu", "no activation \"Softmax\""}, {"SiLU", "Erf", "no activation \"Erf\""},
		{"SiLU", "Swish", "by itself"}} {
		_, err := ReplaceActivation(g, c[0], c[1], nil)
		require.ErrorContains(t, err, c[2])
	}
}
