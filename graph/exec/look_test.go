package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// large has every way in which results are computed in pieces: products with biases, additions and bounds behind them, of
// which the sums are wide enough to be cut by rows and by columns, and chains of elementwise operators.
const large = `graph large
	opset 17
	input x: f32[N,16,24,20]
	output y, z, q
	const w0: f32[96,16,3,3] = normal(seed=1, std=0.2)
	const b0: f32[96] = normal(seed=2, std=0.1)
	const w1: f32[96,1,3,3] = normal(seed=3, std=0.3)
	const w2: f32[96,96,1,1] = normal(seed=4, std=0.1)
	const w3: f32[96,12,1,1] = normal(seed=5, std=0.3)
	const w4: f32[96,8,2,2] = normal(seed=6, std=0.3)
	const lo: f32[] = [0]; const hi: f32[] = [6]; const two: f32[] = [2]
	const bias: f32[20] = normal(seed=7); const m: f32[20,20] = normal(seed=8)
	a = Conv(x, w0, b0) {pads=[1, 1, 1, 1]}
	r = Clip(a, lo, hi)
	d = Conv(r, w1) {pads=[1, 1, 1, 1], group=96}
	e = Clip(d, lo, hi)
	f = Conv(e, w2)
	s = Add(f, r)
	t = Relu(s)
	g = Conv(t, w3) {group=8}
	h = Add(g, t)
	i = Sigmoid(h)
	j = Mul(h, i)
	k = Div(j, two)
	y = Relu(k)
	u = ConvTranspose(y, w4) {strides=[2, 2], group=96}
	z = Relu(u)
	n = MatMul(x, m)
	o = Add(n, bias)
	p = Relu(o)
	pt = Transpose(p) {perm=[0, 1, 3, 2]}
	q = MatMul(p, pt)
`

// TestLookSeesEveryElementOnce compares what Look sees of a random part of the values with what a plain run computes, whatever is
// changed beside it, on one thread and on several.
func TestLookSeesEveryElementOnce(t *testing.T) {
	ctx := context.Background()
	for name, text := range map[string]string{"network": network, "large": large} {
		g := graphtest.Parse(t, text)
		feeds := input(2)
		if name == "large" {
			feeds = map[string]*tensor.Tensor{"x": graphtest.Normal(9, 2, 16, 24, 20)}
		}
		for _, o := range []exec.Options{{}, {Threads: 3}, {Float64: true}} {
			if o.Float64 && name == "large" {
				continue // slow
			}
			s, err := exec.NewPoisoned(g, o)
			require.NoError(t, err)
			r := s.NewRunner()
			rng := rand.New(rand.NewPCG(5, 7))
			for round := range 8 {
				chosen, changed := make([]bool, g.NumValues()), make([]bool, g.NumValues())
				for v := range chosen {
					chosen[v], changed[v] = round == 0 || rng.IntN(2) == 0, round > 1 && rng.IntN(8) == 0
				}
				change := exec.Hooks{Wants: func(v graph.ValueID) bool { return changed[v] },
					Output: func(n *graph.Node, i int, x *tensor.Tensor) error {
						if x.DType == tensor.Float32 {
							for k := range x.F32() {
								x.F32()[k] += 0.25
							}
						}
						return nil
					}}
				want, err := s.NewRunner().RunAll(ctx, feeds, &change, nil)
				require.NoError(t, err)
				look := change
				l := looker{g: g, seen: map[graph.ValueID]*tensor.Tensor{}, times: map[graph.ValueID][]uint8{}, ended: map[graph.ValueID]int{}}
				look.Look, look.Looked = l.look, l.looked
				look.Looks = func(v graph.ValueID) bool { return chosen[v] }
				outs, err := r.Run(ctx, feeds, &look)
				require.NoError(t, err)
				for i, v := range g.Outputs {
					require.True(t, tensor.Equal(want[v].ToRowMajor(), outs[i]), "%s: output %s", name, g.Value(v).Name)
				}
				for v := range g.NumValues() {
					l.check(t, graph.ValueID(v), chosen[v], want[v], fmt.Sprintf("%s %+v: %s", name, o, g.Value(graph.ValueID(v)).Name))
				}
			}
		}
	}
}

// looker puts the pieces of values together.
type looker struct {
	g     *graph.Graph
	mu    sync.Mutex
	seen  map[graph.ValueID]*tensor.Tensor
	times map[graph.ValueID][]uint8
	ended map[graph.ValueID]int
}

func (l *looker) look(n *graph.Node, i int, p exec.Piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := n.Outputs[i]
	if l.seen[v] == nil {
		x := tensor.New(tensor.Float32, p.Shape...)
		x.Layout = p.Layout
		l.seen[v], l.times[v] = x, make([]uint8, x.Len())
	}
	copy(l.seen[v].F32()[p.From:], p.Data)
	for k := range p.Data {
		l.times[v][p.From+k]++
	}
}

func (l *looker) looked(n *graph.Node, i int) error {
	l.ended[n.Outputs[i]]++
	return nil
}

// check demands that the value was seen whole if it was to be.
func (l *looker) check(t *testing.T, v graph.ValueID, chosen bool, want *tensor.Tensor, what string) {
	t.Helper()
	if !chosen || l.g.Producer(v) == graph.NoNode || want != nil && want.DType != tensor.Float32 {
		require.Nil(t, l.seen[v], what)
		return
	}
	if want == nil { // it was computed once for all runs, unless somebody looks
		require.NotNil(t, l.seen[v], what)
	} else {
		require.True(t, tensor.Equal(want.ToRowMajor(), l.seen[v].ToRowMajor()), what)
	}
	require.False(t, slices.ContainsFunc(l.times[v], func(n uint8) bool { return n != 1 }), what)
	require.Equal(t, 1, l.ended[v], what)
}

// A value that is only looked at does not keep its operator and those behind it from being one step.
func TestLookKeepsStepsTogether(t *testing.T) {
	g := graphtest.Parse(t, large)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	steps := func(h exec.Hooks) int {
		n := 0
		h.Step = func(_ *graph.Node, _ []*graph.Node, done bool) {
			if done {
				n++
			}
		}
		_, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(9, 1, 16, 24, 20)}, &h)
		require.NoError(t, err)
		return n
	}
	all := func(graph.ValueID) bool { return true }
	fused := steps(exec.Hooks{})
	assert.Less(t, fused, g.NumNodes())
	assert.Equal(t, fused, steps(exec.Hooks{Looks: all, Look: func(*graph.Node, int, exec.Piece) {}}))
}
