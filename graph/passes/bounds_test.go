package passes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
)

func TestBounds(t *testing.T) {
	const head = `
		input x: f32[2,3]
		input k: f32[]
		const zero: f32[] = 0
		const half: f32[1] = [0.5]
		const one: f32[] = 1
		const deep: f32[1,1,1] = [1]
		const row: f32[3] = [0, 1, 2]`
	runCases(t, Bounds, "opset 13"+head, []passCase{
		{"Max with 0", "y = Max(x, zero); output y", "Relu", ""},
		{"Min with a number, in either order", "a = Min(one, x); y = Neg(a); output y", "Clip Neg", ""},
		{"relu6 as Max and Min", "a = Max(x, zero); y = Min(a, one); output y", "Clip", ""},
		{"relu6 as Relu and Min", "a = Relu(x); y = Min(a, half); output y", "Clip", ""},
		{"Relu twice", "a = Relu(x); y = Relu(a); output y", "Relu", ""},
		{"bounds that exclude each other", "a = Clip(x, one); y = Clip(a, _, half); output y", "Clip", ""},
		{"a lower bound behind a Relu", "a = Relu(x); y = Clip(a, half, one); output y", "Clip", ""},
		{"no bounds", "r = Neg(x); c = Clip(r); y = Neg(c); output y", "Neg Neg", ""},
		{"a bound per channel is no Clip", "y = Max(x, row); output y", "Max", ""},
		{"three operands", "y = Max(x, zero, one); output y", "Max", ""},
		{"a bound that raises the rank", "y = Max(x, deep); output y", "Max", "more dimensions"},
		{"computed bounds", "a = Relu(x); y = Clip(a, _, k); output y", "Relu Clip", "computed"},
		{"a lower bound above the upper one", "a = Relu(x); y = Clip(a, one, zero); output y", "Relu Clip", "above"},
		{"a value in between that others read", "a = Relu(x); b = Clip(a, _, one); y = Add(a, b); output y", "Relu Clip Add", "also read"},
		{"one that is an output", "a = Relu(x); y = Clip(a, _, one); output y, a", "Relu Clip", "graph output"},
	})
	runCases(t, Bounds, "opset 7"+head, []passCase{
		{"bounds as attributes", "a = Max(x, zero); y = Min(a, one); output y", "Clip", ""},
		{"and next to others", "a = Clip(x) {min=-0.5}; y = Clip(a) {max=0.25}; output y", "Clip", ""},
	})
}

func TestBoundsKeepTheForm(t *testing.T) {
	for text, want := range map[string]string{
		"opset 7\ninput x: f32[2]\nconst s: f32[] = 6\na = Relu(x); y = Min(a, " +
			"s) \"m\"; output y": "y: f32[2] = Clip(x) {min=0.0, max=6.0} \"m\"",
		"opset 13\ninput x: f32[2]\nconst s: f32[] = 6\na = Relu(x); y = Min(a, s) \"m\"; output y": "y: f32[2] = Clip(x, m.min, m.max) \"m\"",
	} {
		g, _ := rewrite(t, text, Bounds)
		id, ok := g.LookupNode("m")
		require.True(t, ok)
		require.Equal(t, want, graph.FormatNode(g, id))
	}
}

// TestHardSwishOfMinAndMax: the idiom is found only in the form that Bounds makes.
func TestHardSwishOfMinAndMax(t *testing.T) {
	g, _ := rewrite(t, `opset 13
		input x: f32[1,4,4,4]
		const w: f32[4,4,1,1] = normal(seed=1)
		const v: f32[4,4,1,1] = normal(seed=2)
		const three: f32[] = 3; const zero: f32[] = 0; const six: f32[] = 6
		c = Conv(x, w); a = Add(c, three); l = Max(a, zero); h = Min(l, six); m = Mul(c, h); d = Div(m, six); y = Conv(d, v)
		output y`, Normalize...)
	requireOps(t, g, "Conv Add Clip Mul Div Conv")
}
