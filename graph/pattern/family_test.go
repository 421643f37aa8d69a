package pattern_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/pattern"
)

const consts = `opset 13
input x: f32[2,8,16]
input k: f32[2,16,8]
input mask: f32[2,8,8]
const gamma: f32[16] = normal(seed=1)
const beta: f32[16] = normal(seed=2)
const w: f32[16,16] = normal(seed=3)
const eps: f32[] = 1e-5
const zero: f32[] = 0
const half: f32[] = 0.5
const one: f32[] = 1
const two: f32[] = 2
const three: f32[] = 3
const six: f32[] = 6
const sixth: f32[] = 0.16666667
const root2: f32[] = 1.4142135
const cubic: f32[] = 0.044715
const root2pi: f32[] = 0.7978846
const axis: i64[1] = [-1]
`

func TestFamilies(t *testing.T) {
	cases := []struct {
		claim, family, graph string
		nodes                int
	}{
		{"Swish", "Swish", "s = Sigmoid(x); y = Mul(s, x)", 2},
		{"Swish with a factor", "Swish", "b = Mul(x, two); s = Sigmoid(b); y = Mul(s, x)", 3},
		{"HardSwish over HardSigmoid", "HardSwish", "h = HardSigmoid(x) {alpha=0.1666667, beta=0.5}; y = Mul(h, x)", 2},
		{"HardSigmoid with the default slope 0.2 is another function", "", "h = HardSigmoid(x); y = Mul(h, x)", 0},
		{"HardSwish, Div last", "HardSwish", "a = Add(x, three); c = Clip(a, zero, six); m = Mul(x, c); y = Div(m, six)", 4},
		{"HardSwish, Clip with attributes", "HardSwish", "a = Add(three, x); c = Clip(a) {min=0.0, max=6.0}; m = Mul(c, x); y = Div(m, six)", 4},
		{"HardSwish, a sixth first", "HardSwish", "a = Add(x, three); c = Clip(a, zero, six); m = Mul(sixth, c); y = Mul(m, x)", 4},
		{"a clip at 5 is another function", "", "a = Add(x, three); c = Clip(a, zero, three); m = Mul(x, c); y = Div(m, six)", 0},
		{"Div is not turned round", "", "a = Add(x, three); c = Clip(a, zero, six); m = Mul(x, c); y = Div(six, m)", 0},
		{"Mish", "Mish", "p = Softplus(x); t = Tanh(p); y = Mul(t, x)", 3},
		{"Mish, softplus written out", "Mish", "e = Exp(x); a = Add(one, e); l = Log(a); t = Tanh(l); y = Mul(x, t)", 5},
		{"GELU, exporters' form", "Gelu", "d = Div(x, root2); e = Erf(d); a = Add(e, one); m = Mul(x, a); y = Mul(m, half)", 5},
		{"GELU, half first", "Gelu", "d = Div(x, root2); e = Erf(d); a = Add(e, one); h = Mul(x, half); y = Mul(h, a)", 5},
		{"GELU by tanh", "Gelu", "p = Pow(x, three); q = Mul(p, cubic); s = Add(x, q); z = Mul(s, root2pi); t = Tanh(z); a = Add(t, one); " +
			"m = Mul(x, a); y = Mul(m, half)", 8},
		{"GELU by tanh, cube as products, half on the bracket", "Gelu",
			"k1 = Mul(cubic, x); k2 = Mul(x, k1); k3 = Mul(x, k2); s = Add(x, k3); z = Mul(root2pi, s); t = Tanh(z); a = Add(one, t); " +
				"m = Mul(half, a); y = Mul(x, m)", 9},
		{"LayerNorm, Pow form", "LayerNorm", "m = ReduceMean(x) {axes=[-1]}; d = Sub(x, m); p = Pow(d, two); v = ReduceMean(p) {axes=[-1]}; " +
			"e = Add(v, eps); r = Sqrt(e); n = Div(d, r); s = Mul(n, gamma); y = Add(s, beta)", 9},
		{"LayerNorm, Mul form with Reciprocal, axes by number", "LayerNorm", "m = ReduceMean(x) {axes=[2]}; d = Sub(x, m); p = Mul(d, d); " +
			"v = ReduceMean(p) {axes=[-1]}; e = Add(eps, v); r = Sqrt(e); q = Reciprocal(r); n = Mul(d, q); s = Mul(gamma, n); y = Add(beta, s)",
			10},
		{"LayerNorm without scale and bias, axes as inputs", "LayerNorm", "m = ReduceMean(x, axis); d = Sub(x, m); p = Pow(d, two); " +
			"v = ReduceMean(p, axis); e = Add(v, eps); r = Sqrt(e); y = Div(d, r)", 7},
		{"a normalization over another axis is no LayerNorm", "", "m = ReduceMean(x) {axes=[1]}; d = Sub(x, m); p = Pow(d, two); " +
			"v = ReduceMean(p) {axes=[1]}; e = Add(v, eps); r = Sqrt(e); y = Div(d, r)", 0},
		{"mean and variance over different axes", "", "m = ReduceMean(x) {axes=[1, 2]}; d = Sub(x, m); p = Pow(d, two); " +
			"v = ReduceMean(p) {axes=[2]}; e = Add(v, eps); r = Sqrt(e); n = Div(d, r); y = Sin(n)", 0},
		{"RMSNorm", "RMSNorm", "p = Pow(x, two); v = ReduceMean(p) {axes=[-1]}; e = Add(v, eps); r = Sqrt(e); n = Div(x, r); y = Mul(gamma, n)",
			6},
		{"RMSNorm, 1/sqrt", "RMSNorm", "p = Mul(x, x); v = ReduceMean(p) {axes=[-1]}; e = Add(v, eps); r = Sqrt(e); q = Div(one, r); " +
			"n = Mul(x, q); y = Mul(n, gamma)", 7},
		{"attention with scale and mask", "Attention", "s = MatMul(x, k); a = Div(s, two); b = Add(mask, a); p = Softmax(b) {axis=-1}; " +
			"y = MatMul(p, x)", 5},
		{"attention without either", "Attention", "s = MatMul(x, k); p = Softmax(s) {axis=2}; y = MatMul(p, x)", 3},
		{"a softmax over another axis is no attention", "", "s = MatMul(x, k); p = Softmax(s) {axis=1}; y = MatMul(p, x)", 0},
		{"a product with weights is no attention", "", "s = MatMul(x, w); p = Softmax(s); y = MatMul(p, w)", 0},
	}
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) {
			g := parse(t, consts+c.graph+"\noutput y")
			found := pattern.Cover(g, pattern.Families...)
			if c.family == "" {
				for _, f := range found { // a part may be something else
					assert.NotEqual(t, node(t, g, "y"), f.Root, f.Family.Name)
				}
				return
			}
			require.Len(t, found, 1)
			assert.Equal(t, c.family, found[0].Family.Name)
			assert.Len(t, found[0].Nodes, c.nodes)
			assert.Equal(t, node(t, g, "y"), found[0].Root)
		})
	}
}

func TestCoverIsDisjoint(t *testing.T) {
	// Two LayerNorms in a row, around a Swish: the first one's scale and bias belong to it, not to what follows.
	g := parse(t, consts+`
		m = ReduceMean(x) {axes=[-1]}; d = Sub(x, m); p = Pow(d, two); v = ReduceMean(p) {axes=[-1]}; e = Add(v, eps)
		r = Sqrt(e); n = Div(d, r); s = Mul(n, gamma); l = Add(s, beta)
		g = Sigmoid(l); h = Mul(l, g)
		m2 = ReduceMean(h) {axes=[-1]}; d2 = Sub(h, m2); p2 = Pow(d2, two); v2 = ReduceMean(p2) {axes=[-1]}; e2 = Add(v2, eps)
		r2 = Sqrt(e2); y = Div(d2, r2)
		output y`)
	found := pattern.Cover(g, pattern.Families...)
	var names []string
	seen := map[graph.NodeID]bool{}
	for _, f := range found {
		names = append(names, f.Family.Name)
		for _, n := range f.Nodes {
			require.False(t, seen[n], "node %q twice", g.Node(n).Name)
			seen[n] = true
		}
	}
	assert.Equal(t, []string{"LayerNorm", "Swish", "LayerNorm"}, names)
	assert.Len(t, seen, 9+2+7)
}

func TestEveryFormIsReachable(t *testing.T) {
	// A graph written after each form is covered by its family with exactly the nodes of the form.
	for _, f := range pattern.Families {
		for _, p := range f.Forms {
			g := instance(t, p)
			m, ok := f.Match(g, g.Producer(g.Outputs[0]))
			require.True(t, ok, "%s does not match its own form:\n%s", f.Name, p)
			require.Len(t, m.Nodes, g.NumNodes(), "%s: a shorter form hides\n%s", f.Name, p)
		}
	}
}
