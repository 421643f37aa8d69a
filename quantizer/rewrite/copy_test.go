package rewrite_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/rewrite"
)

const postNorm = `opset 17
	input x: f32[2,5,4]
	output y
	const s: f32[4] = normal(seed=1); const b: f32[4] = normal(seed=2); const w: f32[4,6] = normal(seed=3); const p: f32[6] = normal(seed=4)
	const q: f32[4,4] = normal(seed=5); const v: f32[6,4] = normal(seed=6)
	n = LayerNormalization(x, s, b) "norm"
	k = MatMul(n, q) "key"
	a = MatMul(n, w) "one"
	c = Add(a, p)
	r = Relu(c)
	m = MatMul(r, v) "two"
	t = Add(m, n) "residual"
	y = Add(t, k)`

// A residual branch keeps the normalization; what multiplies by weights gets a copy, whose channels take factors and shifts.
func TestCopiesKeepTheFunction(t *testing.T) {
	g := parse(t, postNorm)
	id, _ := g.LookupNode("norm")
	_, reason := rewrite.CanScale(g, id)
	require.NotEmpty(t, reason)
	step, way, shifts := rewrite.CanCopy(g, id)
	require.NotNil(t, way)
	require.True(t, shifts)
	require.Equal(t, []string{"key", "one"}, step.Nodes)
	require.Equal(t, 4, way.Channels)
	require.Equal(t, []string{"norm"}, names(g, way.Producers))
	require.ElementsMatch(t, []string{"key", "one"}, names(g, way.Consumers))
	shift := rewrite.Step{Kind: "shift", At: "norm/copy", Vectors: map[string][]float32{"shift": {1, -2, 0, 3}}}
	after := apply(t, g, *step, shift, scale("norm/copy", 4))
	require.Equal(t, constOf(t, g, "norm", 1).F32(), constOf(t, after, "norm", 1).F32())
	require.NotEqual(t, constOf(t, g, "norm", 1).F32(), constOf(t, after, "norm/copy", 1).F32())
	copied, _ := after.LookupNode("norm")
	again, _, _ := rewrite.CanCopy(after, copied)
	require.Nil(t, again) // the residual alone reads it now
}

func TestCopiesRefuse(t *testing.T) {
	g := parse(t, postNorm)
	for _, c := range []struct {
		step   rewrite.Step
		reason string
	}{
		{rewrite.Step{Kind: "copy", At: "gone", Nodes: []string{"one"}}, "no such node"},
		{rewrite.Step{Kind: "copy", At: "residual", Nodes: []string{"one"}}, "no weights"},
		{rewrite.Step{Kind: "copy", At: "norm"}, "names no reader"},
		{rewrite.Step{Kind: "copy", At: "norm", Nodes: []string{"two"}}, "does not read it"},
		{rewrite.Step{Kind: "copy", At: "norm", Nodes: []string{"nobody"}}, "does not read it"},
	} {
		_, err := rewrite.Apply(g, []rewrite.Step{c.step})
		var broken *rewrite.Broken
		require.True(t, errors.As(err, &broken), "%v", err)
		require.Contains(t, err.Error(), c.reason)
	}
	copied := rewrite.Step{Kind: "copy", At: "norm", Nodes: []string{"one"}}
	_, err := rewrite.Apply(g, []rewrite.Step{copied, copied})
	require.ErrorContains(t, err, "it has a copy")
}
