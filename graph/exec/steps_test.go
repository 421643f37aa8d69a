package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
)

// A hook of steps sees every node once, alone or among those fused into another, but for those computed once for all runs,
// and the results are those without it. A hook that sees values too leaves nothing fused and nothing out.
func TestStepHook(t *testing.T) {
	g := graphtest.Parse(t, network)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(3, 2, 3, 12, 10)}
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	want, err := s.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	for _, values := range []bool{false, true} {
		seen := map[string]int{}
		within := map[string]string{}
		var open *graph.Node
		name := func(n *graph.Node) string { return g.Value(n.Outputs[0]).Name }
		hooks := &exec.Hooks{Step: func(n *graph.Node, fused []*graph.Node, done bool) {
			if !done {
				assert.Nil(t, open)
				assert.Empty(t, fused)
				open = n
				return
			}
			assert.Same(t, open, n)
			open = nil
			seen[name(n)]++
			for _, f := range fused {
				seen[name(f)]++
				within[name(f)] = name(n)
			}
		}}
		if values {
			hooks.Output = func(*graph.Node, int, *tensor.Tensor) error { return nil }
		}
		got, err := s.NewRunner().Run(context.Background(), feeds, hooks)
		require.NoError(t, err)
		equalAll(t, want, got, "with a hook of steps")
		assert.Nil(t, open)
		for _, id := range g.Nodes() {
			count := 1
			if out := name(g.Node(id)); out == "four" && !values { // its inputs are constants
				count = 0
			}
			assert.Equal(t, count, seen[name(g.Node(id))], name(g.Node(id)))
		}
		if values {
			assert.Empty(t, within)
		} else {
			assert.Equal(t, "a", within["r"], "a Relu belongs to its convolution")
			assert.Equal(t, "e", within["sum"], "so does an Add")
			assert.Equal(t, "e", within["s"], "and the Relu after it")
		}
	}
}
