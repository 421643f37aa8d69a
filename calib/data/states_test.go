package data

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// examined shows feeds to a doctor of a graph and returns what it warns of.
func examined(t *testing.T, text string, feeds ...map[string]*tensor.Tensor) []string {
	t.Helper()
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	d := NewDoctor(SpecOf(g), g, nil)
	for i, f := range feeds {
		d.Observe(&exec.Sample{Name: string(rune('a' + i)), Feeds: f, Hash: Hash(f)})
	}
	return texts(d.Warnings())
}

// A state that is 0 everywhere, or has no elements, says how it is recorded.
func TestStatesThatAreNotThere(t *testing.T) {
	const state = `
opset 17
input x: f32[1,2]
input h: f32[N,2]
y = Concat(x, h) {axis=0}
output y: f32[M,2]
`
	feeds := func(rows int, a float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, -a}, 1, 2), "h": tensor.New(tensor.Float32, rows, 2)}
	}
	for rows, want := range []string{"the input has no element in any of 2 samples: none of its numbers was seen",
		"the input is constant in 2 of 2 samples (first: a)"} {
		got := examined(t, state, feeds(rows, 1), feeds(rows, 2))
		require.Len(t, got, 1)
		require.Contains(t, got[0], want)
		require.Contains(t, got[0], "; record the state by r") // rolling or running it
	}
}

// A state of one number that is 0 in all samples is one, too; a number that is always 1 may be right, and a single sample says nothing.
func TestStatesOfOneNumber(t *testing.T) {
	const text = `
opset 17
input x: f32[1,2]
input h: f32[1,1]
y = Add(x, h)
output y: f32[1,2]
`
	feeds := func(a, h float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{a, -a}, 1, 2), "h": tensor.FromF32([]float32{h}, 1, 1)}
	}
	got := examined(t, text, feeds(1, 0), feeds(2, 0))
	require.Len(t, got, 1)
	require.Contains(t, got[0], "every element is 0 in all of 2 samples; record the state by running the model, or samples in which it varies")
	got = examined(t, text, feeds(1, 1), feeds(2, 1))
	require.Equal(t, []string{"every element is 1 in all of 2 samples"}, got)
	require.Empty(t, examined(t, text, feeds(1, 0), feeds(2, 0.5)))
	require.Empty(t, examined(t, text, feeds(1, 0)))
}
