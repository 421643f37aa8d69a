package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
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

// In the long run RunInto allocates nothing, and gives what Run gives.
func TestRunIntoAllocatesNothing(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		opset 17
		input x: f32[N,3,24,20]
		output y, pooled
		const w0: f32[8,3,3,3] = normal(seed=1, std=0.2); const b0: f32[8] = normal(seed=2)
		const w1: f32[8,1,3,3] = normal(seed=3); const w2: f32[8,8,1,1] = normal(seed=4)
		const fc: f32[8,5] = normal(seed=5); const fb: f32[5] = normal(seed=6); const flat: i64[2] = [0, -1]
		a = Conv(x, w0, b0) {pads=[1, 1, 1, 1]}
		r = Relu(a)
		d = Conv(r, w1) {pads=[1, 1, 1, 1], group=8}
		e = Conv(d, w2)
		s = Add(e, r)
		m = MaxPool(s) {kernel_shape=[2, 2], strides=[2, 2]}
		pooled = GlobalAveragePool(m)
		k, mask = Dropout(pooled)
		f = Reshape(k, flat)
		y = Gemm(f, fc, fb)
	`)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	ctx := context.Background()
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 2, 3, 24, 20)}
	want, err := s.NewRunner().Run(ctx, feeds, nil)
	require.NoError(t, err)
	r := s.NewRunner()
	outs := make([]*tensor.Tensor, 2)
	for range 3 {
		require.NoError(t, r.RunInto(ctx, feeds, nil, outs))
		equalAll(t, want, outs, "into tensors of the caller")
	}
	first := outs[0]
	allocs := testing.AllocsPerRun(20, func() {
		if err := r.RunInto(ctx, feeds, nil, outs); err != nil {
			t.Error(err)
		}
	})
	assert.True(t, racing || allocs == 0, "%v allocations", allocs)
	assert.Same(t, first, outs[0], "the tensor is used again")
	outs[0] = tensor.New(tensor.Float32, 5)
	require.NoError(t, r.RunInto(ctx, feeds, nil, outs))
	equalAll(t, want, outs, "a tensor of another shape is replaced")
	assert.ErrorContains(t, r.RunInto(ctx, feeds, nil, nil), "0 tensors for 2 outputs")
}
