package exec_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// TestHooksSeeWhatTheyWant changes a random part of the values, in runs where nothing else is looked at, so that operators are
// fused and memory is shared, and in runs where everything is.
func TestHooksSeeWhatTheyWant(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.NewPoisoned(g, exec.Options{})
	require.NoError(t, err)
	ctx := context.Background()
	r := s.NewRunner()
	kept, err := r.RunAll(ctx, input(2), nil, nil)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(4, 9))
	for range 60 {
		chosen := make([]bool, g.NumValues())
		for v := range chosen {
			chosen[v] = rng.IntN(4) == 0
		}
		change := func(wants func(graph.ValueID) bool) *exec.Hooks {
			look := func(v graph.ValueID) bool {
				require.True(t, wants == nil || wants(v), "a hook is called for nothing that it does not want")
				return chosen[v]
			}
			return &exec.Hooks{Wants: wants,
				Input: func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
					if !look(n.Inputs[i]) || x.DType != tensor.Float32 || g.Const(n.Inputs[i]) != nil {
						return x, nil
					}
					c := x.Clone()
					for k := range c.F32() {
						c.F32()[k] *= 0.5
					}
					return c, nil
				},
				Output: func(n *graph.Node, i int, x *tensor.Tensor) error {
					if look(n.Outputs[i]) && x.DType == tensor.Float32 {
						for k := range x.F32() {
							x.F32()[k] += 0.25
						}
					}
					return nil
				}}
		}
		wants := func(v graph.ValueID) bool { return chosen[v] }
		want, err := s.NewRunner().Run(ctx, input(2), change(nil))
		require.NoError(t, err)
		for range 2 { // without a plan, and with one
			got, err := r.Run(ctx, input(2), change(wants))
			require.NoError(t, err)
			equalAll(t, want, got, "wanted values only")
		}
		// A restart gives the same whether the values between are kept or not.
		for _, id := range g.Nodes() {
			one := change(wants)
			only := func(h *exec.Hooks) *exec.Hooks {
				return &exec.Hooks{Wants: h.Wants, Output: func(n *graph.Node, i int, x *tensor.Tensor) error {
					if n.ID == id {
						return h.Output(n, i, x)
					}
					return nil
				}}
			}
			want, err := r.Run(ctx, input(2), only(change(nil)))
			require.NoError(t, err)
			some := make([]*tensor.Tensor, len(kept))
			for v := range kept {
				if g.IsInput(graph.ValueID(v)) || rng.IntN(2) == 0 {
					some[v] = kept[v]
				}
			}
			got, _, err := r.Resume(ctx, some, id, only(one), nil)
			require.NoError(t, err)
			equalAll(t, want, got, g.Node(id).Name)
		}
	}
}
