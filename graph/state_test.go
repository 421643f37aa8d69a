package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
)

func TestStates(t *testing.T) {
	list, err := graph.ParseStates([]string{"h=h_out", "a=b=c"})
	require.NoError(t, err)
	require.Equal(t, []graph.State{{Input: "h", Output: "h_out"}, {Input: "a=b", Output: "c"}}, list)
	for _, bad := range []string{"h", "=h", "h="} {
		_, err := graph.ParseStates([]string{bad})
		require.ErrorContains(t, err, "as in h=h_out")
	}
	g := graphtest.Parse(t, `
opset 17
input x: f32[1,2]
input h: f32[1,2]
input c: f32[1,2]
input k: f32[1,3]
h_new = Add(x, h)
c_new = Add(x, c)
y = Neg(k)
output y: f32[1,3]
output h_new: f32[1,2]
output c_new: f32[1,2]
`)
	graph.InferShapes(g)
	for in, out := range map[string]string{"h": "h_new", "c": "c_new", "k": "y", "x": "", "none": ""} {
		require.Equal(t, out, g.GuessState(in), in)
	}
	check := func(words ...string) error {
		list, err := graph.ParseStates(words)
		require.NoError(t, err)
		return g.CheckStates(list)
	}
	require.NoError(t, check("h=h_new", "c=c_new"))
	require.EqualError(t, check("h=y"), "state h=y: the input is f32[1,2], the output f32[1,3]")
	require.EqualError(t, check("h=h_new", "h=c_new"), `state h=c_new: input "h" is a state already`)
	require.ErrorContains(t, check("h=h_new", "c=c_new", "x=h_new", "k=y"), "nothing to feed it with")
}
