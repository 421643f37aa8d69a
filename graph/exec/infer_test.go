package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// TestOtherWeightsAreNotInferredAgain: what a run puts in the place of constant weights leaves what was inferred as it is.
func TestOtherWeightsAreNotInferredAgain(t *testing.T) {
	g := graphtest.Parse(t, branches["sums"])
	s, err := New(g, Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 2, 16, 9, 9)}
	replaced := 0
	hooks := &Hooks{Input: func(_ *graph.Node, i int, w *tensor.Tensor) (*tensor.Tensor, error) {
		if i != 1 || len(w.Shape) != 4 || w.Shape[1] != 16 || w.Len() < 9 {
			return w, nil
		}
		replaced++
		return w.Clone(), nil
	}}
	var before []*outType
	for i := range 4 {
		h := hooks
		if i%2 == 1 {
			h = nil
		}
		_, err = r.Run(context.Background(), feeds, h)
		require.NoError(t, err)
		var at []*outType
		for k := range r.types {
			at = append(at, &r.types[k].out[0])
		}
		require.True(t, before == nil || len(at) == len(before))
		for k := range before {
			require.Same(t, before[k], at[k], "step %d", k)
		}
		before = at
	}
	require.Equal(t, 6, replaced)
}
