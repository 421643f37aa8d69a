package exec_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// network has what the executor treats specially: convolutions of every kind, layouts that change and change back, aliases,
// values with several readers, nodes with constant inputs, a value that is an output and read too.
const network = `graph net
	opset 17
	input x: f32[N,3,12,10]
	output p, tail, side
	const w0: f32[8,3,3,3] = normal(seed=1, std=0.2)
	const b0: f32[8] = normal(seed=2, std=0.1)
	const w1: f32[8,1,3,3] = normal(seed=3, std=0.3)
	const w2: f32[8,8,1,1] = normal(seed=4, std=0.3)
	const b2: f32[8] = normal(seed=5, std=0.1)
	const w3: f32[16,4,2,2] = normal(seed=6, std=0.2)
	const bn: f32[8] = uniform(seed=7, low=0.5, high=1.5)
	const fc: f32[20,7] = normal(seed=8, std=0.2)
	const one: f32[] = [1]; const three: f32[] = [3]; const lo: f32[] = [0]; const hi: f32[] = [6]
	const flat: i64[2] = [0, -1]; const back: i64[4] = [0, 8, 12, 10]
	a = Conv(x, w0, b0) {pads=[1, 1, 1, 1]}
	r = Relu(a)
	d = Conv(r, w1) {pads=[1, 1, 1, 1], group=8}
	n = BatchNormalization(d, bn, b0, b2, bn)
	c = Clip(n, lo, hi)
	e = Conv(c, w2, b2)
	sum = Add(e, r)
	s = Relu(sum)
	f = Reshape(s, flat)
	g = Reshape(f, back)
	four = Add(one, three)
	h = Div(g, four)
	avg = GlobalAveragePool(h)
	gate = HardSigmoid(avg)
	m = Mul(h, gate)
	j = Concat(m, s) {axis=1}
	k = MaxPool(j) {kernel_shape=[2, 2], strides=[2, 2]}
	t = Transpose(k) {perm=[0, 2, 3, 1]}
	side = ReduceMean(t) {axes=[1, 2], keepdims=0}
	u = Conv(k, w3) {group=4}
	tail = GlobalMaxPool(u)
	tf = Flatten(tail)
	v = Concat(side, tf) {axis=1}
	cut = Slice(v, starts, ends, axes)
	const starts: i64[1] = [3]; const ends: i64[1] = [23]; const axes: i64[1] = [1]
	z = MatMul(cut, fc)
	zr = Clip(z, lo, hi)
	y = Gemm(zr, sq, gb) {alpha=0.5}
	yr = Relu(y)
	const sq: f32[7,7] = normal(seed=10, std=0.5)
	const gb: f32[7] = normal(seed=11, std=0.5)
	p = Softmax(yr)
`

// run executes g once in a new runner.
func run(t testing.TB, g *graph.Graph, o exec.Options, feeds map[string]*tensor.Tensor, hooks *exec.Hooks) []*tensor.Tensor {
	t.Helper()
	s, err := exec.NewPoisoned(g, o)
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), feeds, hooks)
	require.NoError(t, err)
	return out
}

func equalAll(t testing.TB, want, got []*tensor.Tensor, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		require.True(t, tensor.Equal(want[i], got[i]), "%s: output %d: %s and %s", what, i, want[i].Type(), got[i].Type())
	}
}

func input(n int) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"x": graphtest.Normal(9, n, 3, 12, 10)}
}

func TestResultsDoNotDependOnHowTheyAreComputed(t *testing.T) {
	g := graphtest.Parse(t, network)
	want := run(t, g, exec.Options{}, input(3), nil)
	see := &exec.Hooks{
		Input:  func(_ *graph.Node, _ int, x *tensor.Tensor) (*tensor.Tensor, error) { return x, nil },
		Output: func(*graph.Node, int, *tensor.Tensor) error { return nil },
	}
	for _, threads := range []int{0, 1, 2, 7} {
		o := exec.Options{Threads: threads}
		equalAll(t, want, run(t, g, o, input(3), nil), "threads")
		equalAll(t, want, run(t, g, o, input(3), see), "hooks")
		equalAll(t, want, run(t, g, o, input(3), &exec.Hooks{Input: see.Input}), "input hook")
		equalAll(t, want, run(t, g, o, input(3), &exec.Hooks{Output: see.Output}), "output hook")
	}
	s, err := exec.NewPoisoned(g, exec.Options{Threads: 2})
	require.NoError(t, err)
	r := s.NewRunner()
	for i, n := range []int{3, 1, 3, 2, 3, 1, 4, 5, 3, 3} {
		hooks := see
		if i%2 == 0 {
			hooks = nil
		}
		got, err := r.Run(context.Background(), input(n), hooks)
		require.NoError(t, err)
		if n == 3 {
			equalAll(t, want, got, "planned run")
		}
		kept, err := r.RunAll(context.Background(), input(n), hooks, nil)
		require.NoError(t, err)
		for i, v := range g.Outputs {
			assert.True(t, tensor.Equal(got[i], kept[v].ToRowMajor()), "RunAll")
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	shuffled := g.Clone()
	shuffled.Shuffle(rng.Perm(shuffled.NumNodes()))
	equalAll(t, want, run(t, shuffled, exec.Options{Threads: 2}, input(3), nil), "shuffled storage")
}

func TestSplittingABatchChangesNothing(t *testing.T) {
	g := graphtest.Parse(t, network)
	const n = 5
	whole := run(t, g, exec.Options{Threads: 2}, input(n), nil)
	x := input(n)["x"]
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	for i := range n {
		size := x.Len() / n
		one := tensor.FromF32(x.F32()[i*size:(i+1)*size], 1, 3, 12, 10)
		got, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": one}, nil)
		require.NoError(t, err)
		for k := range got {
			size := whole[k].Len() / n
			assert.Equal(t, whole[k].F32()[i*size:(i+1)*size], got[k].F32(), "sample %d output %d", i, k)
		}
	}
}

func TestFloat64IsCloseToFloat32(t *testing.T) {
	g := graphtest.Parse(t, network)
	a := run(t, g, exec.Options{}, input(2), nil)
	b := run(t, g, exec.Options{Float64: true}, input(2), nil)
	for i := range a {
		require.NoError(t, near(a[i], b[i], 1e-4, 1e-6))
	}
	equalAll(t, b, run(t, g, exec.Options{Float64: true, Threads: 2}, input(2), nil), "threads")
}

func TestInputHookReplacesTensors(t *testing.T) {
	other := graphtest.Parse(t, network)
	w, _ := other.Lookup("w2")
	doubled := other.Const(w).Clone()
	for i := range doubled.F32() {
		doubled.F32()[i] *= 2
	}
	g := graphtest.Parse(t, network)
	other.SetConst(w, doubled)
	want := run(t, other, exec.Options{}, input(2), nil)
	plain := run(t, g, exec.Options{}, input(2), nil)

	s, err := exec.NewPoisoned(g, exec.Options{})
	require.NoError(t, err)
	replace := &exec.Hooks{Input: func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
		if i == 1 && n.Inputs[1] == w {
			return doubled, nil
		}
		return x, nil
	}}
	var wait sync.WaitGroup
	for k := range 4 { // runners share the packed weights
		wait.Go(func() {
			r := s.NewRunner()
			for range 3 {
				got, err := r.Run(context.Background(), input(2), replace)
				if assert.NoError(t, err) {
					assert.True(t, tensor.Equal(want[0], got[0]), "goroutine %d replaced", k)
				}
				if got, err = r.Run(context.Background(), input(2), nil); assert.NoError(t, err) {
					assert.True(t, tensor.Equal(plain[0], got[0]), "goroutine %d plain", k)
				}
			}
		})
	}
	wait.Wait()

	wrong := &exec.Hooks{Input: func(_ *graph.Node, _ int, x *tensor.Tensor) (*tensor.Tensor, error) {
		return tensor.New(tensor.Float32, 1), nil
	}}
	_, err = s.NewRunner().Run(context.Background(), input(2), wrong)
	assert.ErrorContains(t, err, "another type or layout")
}

// An output hook writes in place. What it writes must reach the readers of that value, and nobody else, although Reshape and
// Identity could share memory with their input.
func TestOutputHookWritesOnlyItsValue(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		input x: f32[2,3]
		output a, b, x2
		const s: i64[1] = [6]
		n = Neg(x)
		y = Reshape(n, s)
		i = Identity(y)
		a = Neg(i)
		b = Neg(n)
		x2 = Identity(x)
	`)
	x := tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	add := &exec.Hooks{Output: func(n *graph.Node, _ int, t *tensor.Tensor) error {
		if n.Op == "Reshape" || n.Op == "Identity" {
			for i := range t.F32() {
				t.F32()[i] += 10
			}
		}
		return nil
	}}
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	for range 3 {
		out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, add)
		require.NoError(t, err)
		assert.Equal(t, []float32{-19, -18, -17, -16, -15, -14}, out[0].F32())
		assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, out[1].F32())
		assert.Equal(t, []float32{11, 12, 13, 14, 15, 16}, out[2].F32())
	}
	assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, x.F32(), "a feed is never written to")
}

func TestOutputsBelongToTheCaller(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	ctx := context.Background()
	first, err := r.Run(ctx, input(2), nil)
	require.NoError(t, err)
	again := first[0].Clone()
	other := input(2)
	for i := range other["x"].F32() {
		other["x"].F32()[i] *= -3
	}
	_, err = r.Run(ctx, other, nil)
	require.NoError(t, err)
	assert.True(t, tensor.Equal(again, first[0]))
}

func TestPlannedRunsAllocateNoActivations(t *testing.T) {
	if racing {
		t.Skip("with the race detector, pools forget")
	}
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	feeds := input(16)
	step := func() {
		_, err := r.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
	}
	step()
	step()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		step()
	}
	runtime.ReadMemStats(&after)
	oneActivation := uint64(16 * 8 * 12 * 10 * 4)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/5, oneActivation)
}

func TestShapesThatDependOnData(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		opset 13
		input x: f32[N]
		output y, k
		const shape: i64[2] = [1, -1]
		nz = NonZero(x)
		idx = Squeeze(nz)
		v = Gather(x, idx)
		w = Reshape(v, shape)
		y = Neg(w)
		k = Shape(nz)
	`)
	s, err := exec.NewPoisoned(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	for _, c := range [][]float32{{1, 0, 2, 0}, {1, 2, 3, 4}, {0, 0, 5, 6}, {7, 0, 0, 0.5}} {
		want := []float32{}
		for _, v := range c {
			if v != 0 {
				want = append(want, -v)
			}
		}
		out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.FromF32(c, 4)}, nil)
		require.NoError(t, err)
		assert.Equal(t, want, out[0].F32())
		assert.Equal(t, []int64{1, int64(len(want))}, out[1].I64())
	}
}

// An initializer that is a graph input as well (ONNX before IR version 4) may be fed; nothing may have been folded from it.
func TestConstantInputsMayBeFed(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		input x: f32[2]
		output y
		const w: f32[2] = [1, 2]
		n = Neg(w)
		y = Add(x, n)
	`)
	w, _ := g.Lookup("w")
	g.Inputs = append(g.Inputs, w)
	x := map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{10, 20}, 2)}
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	out, err := r.Run(context.Background(), x, nil)
	require.NoError(t, err)
	assert.Equal(t, []float32{9, 18}, out[0].F32())
	x["w"] = tensor.FromF32([]float32{5, 5}, 2)
	out, err = r.Run(context.Background(), x, nil)
	require.NoError(t, err)
	assert.Equal(t, []float32{5, 15}, out[0].F32())
}

func TestMACs(t *testing.T) {
	g := graphtest.Parse(t, network)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	_, err = r.Run(context.Background(), input(2), nil)
	require.NoError(t, err)
	macs := r.MACs()
	for name, want := range map[string]int64{"a": 2 * 8 * 12 * 10 * 3 * 9, "d": 2 * 8 * 12 * 10 * 9, "z": 2 * 20 * 7, "r": 0} {
		v, _ := g.Lookup(name)
		assert.Equal(t, want, macs[g.Producer(v)], name)
	}
}

func TestIfRunsTheBranchThatIsChosen(t *testing.T) {
	g := graphtest.Parse(t, `graph g
		opset 13
		input x: f32[N]
		input c: bool[]
		output y
		const two: f32[] = [2]
		n = Neg(x)
		y = If(c) {then_branch=graph then {
			output a
			a = Mul(n, two)
		}, else_branch=graph other {
			output b
			b = Abs(x)
		}}
	`)
	s, err := exec.NewPoisoned(g, exec.Options{})
	require.NoError(t, err)
	r := s.NewRunner()
	for _, n := range []int{2, 3, 2} {
		x := graphtest.Iota(n)
		for _, cond := range []bool{true, false} {
			out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": x,
				"c": {DType: tensor.Bool, Shape: []int{}, Data: []bool{cond}}}, nil)
			require.NoError(t, err)
			want := x.Clone()
			for i := range want.F32() {
				if cond {
					want.F32()[i] *= -2
				}
			}
			require.NoError(t, near(out[0], want, 0, 0))
		}
	}
}
