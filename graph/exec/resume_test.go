package exec_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// perturb changes the outputs of one node.
func perturb(id graph.NodeID, f func(float32) float32) *exec.Hooks {
	return &exec.Hooks{Output: func(n *graph.Node, _ int, t *tensor.Tensor) error {
		if n.ID == id {
			for i, v := range t.F32() {
				t.F32()[i] = f(v)
			}
		}
		return nil
	}}
}

// TestResumeEqualsAFullRun restarts at every node, with everything kept and with parts of it missing.
func TestResumeEqualsAFullRun(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.NewPoisoned(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ctx := context.Background()
	x, _ := g.Lookup("x")
	rng := rand.New(rand.NewPCG(3, 3))
	for _, id := range g.Nodes() {
		hooks := perturb(id, func(v float32) float32 { return v + 0.25 })
		want, err := r.Run(ctx, input(2), hooks)
		require.NoError(t, err)
		for _, missing := range []float64{0, 0.3, 0.8, 1} {
			kept, err := r.RunAll(ctx, input(2), nil, func(v graph.ValueID) bool { return v == x || rng.Float64() >= missing })
			require.NoError(t, err)
			before := make([]*tensor.Tensor, len(kept))
			for i, k := range kept {
				if k != nil {
					before[i] = k.Clone()
				}
			}
			got, ran, err := r.Resume(ctx, kept, id, hooks, nil)
			require.NoError(t, err)
			equalAll(t, want, got, g.Node(id).Name)
			assert.Contains(t, ran, id)
			for i := range kept {
				require.True(t, kept[i] == nil || tensor.Equal(before[i], kept[i]), "kept values are not written to")
			}
		}
	}
}

func TestResumeStopsWhereNothingChanges(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		input x: f32[4]
		output y, z
		a = Abs(x) "a"
		b = Neg(a) "b"
		c = Relu(b) "c"
		d = Exp(c) "d"
		y = Add(d, c) "e"
		z = Neg(a) "f"
	`)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ctx := context.Background()
	feeds := map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1, 2, 3, 4}, 4)}
	kept, err := r.RunAll(ctx, feeds, nil, nil)
	require.NoError(t, err)
	a, _ := g.LookupNode("a")
	b, _ := g.LookupNode("b")
	names := func(ids []graph.NodeID) (list []string) {
		for _, id := range ids {
			list = append(list, g.Node(id).Name)
		}
		return
	}

	// b stays negative, so that c is what it was.
	out, ran, err := r.Resume(ctx, kept, b, perturb(b, func(v float32) float32 { return v - 1 }), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "c"}, names(ran))
	y, _ := g.Lookup("y")
	assert.Same(t, kept[y], out[0])

	// Nothing changes at all.
	_, ran, err = r.Resume(ctx, kept, a, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, names(ran))

	// Only b and c are wanted: z is what was kept.
	hooks := perturb(a, func(v float32) float32 { return -v })
	z, _ := g.Lookup("z")
	out, ran, err = r.Resume(ctx, kept, a, hooks, func(id graph.NodeID) bool { return id <= b })
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names(ran))
	assert.Same(t, kept[z], out[1])

	_, _, err = r.Resume(ctx, make([]*tensor.Tensor, len(kept)), b, nil, nil)
	assert.ErrorContains(t, err, `input "x" is neither kept nor constant`)
	_, _, err = r.Resume(ctx, kept[:1], b, nil, nil)
	assert.ErrorContains(t, err, "kept values")
	_, _, err = r.Resume(ctx, kept, 99, nil, nil)
	assert.ErrorContains(t, err, "no node 99")
}
