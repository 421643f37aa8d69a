package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// fires has Concats whose inputs are convolutions, with activations and additions and without, a pool, a value that has
// another reader, and one Concat within another.
const fires = `graph fires
	opset 17
	input x: f32[N,4,9,7]
	output y, other
	const w0: f32[5,4,1,1] = normal(seed=1); const w1: f32[6,4,3,3] = normal(seed=2); const w2: f32[3,4,3,3] = normal(seed=3)
	const w3: f32[7,18,1,1] = normal(seed=4); const w4: f32[2,18,3,3] = normal(seed=5); const w5: f32[4,27,1,1] = normal(seed=6)
	a = Conv(x, w0)
	ar = Relu(a)
	b = Conv(x, w1) {pads=[1, 1, 1, 1]}
	c = Conv(x, w2) {pads=[1, 1, 1, 1]}
	cr = Relu(c)
	other = Neg(cr)
	p = MaxPool(c0) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}
	c0 = Conv(x, w6)
	const w6: f32[4,4,1,1] = normal(seed=7)
	j = Concat(ar, b, cr, p) {axis=1}
	d = Conv(j, w3)
	d2 = Conv(j, w7)
	const w7: f32[7,18,1,1] = normal(seed=8)
	s = Add(d, d2)
	sr = Relu(s)
	e = Conv(j, w4) {pads=[1, 1, 1, 1]}
	k = Concat(j, sr, e) {axis=1}
	y = Conv(k, w5)
`

// Where convolutions write into a Concat's output at once, every value is what it is where each has memory of its own.
func TestConcatsOfConvolutions(t *testing.T) {
	g := graphtest.Parse(t, fires)
	ctx := context.Background()
	for _, threads := range []int{1, 3} {
		s, err := exec.NewPoisoned(g, exec.Options{Threads: threads})
		require.NoError(t, err)
		r := s.NewRunner()
		for _, n := range []int{1, 3, 1} {
			feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(n), n, 4, 9, 7)}
			nothing := &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { return nil }}
			want, err := s.NewRunner().Run(ctx, feeds, nothing)
			require.NoError(t, err)
			for range 3 { // without a plan, and with one
				got, err := r.Run(ctx, feeds, nil)
				require.NoError(t, err)
				equalAll(t, want, got, "joined")
			}
			// A value in the middle is looked at.
			v, _ := g.Lookup("b")
			only := &exec.Hooks{Wants: func(w graph.ValueID) bool { return w == v }, Output: nothing.Output}
			got, err := r.Run(ctx, feeds, only)
			require.NoError(t, err)
			equalAll(t, want, got, "with a hook on one input")
		}
	}
}
