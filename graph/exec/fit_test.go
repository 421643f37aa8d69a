package exec_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// A network whose open dimension doubles twelve times: its own shapes say nothing, those of a sample do.
const doubling = `opset 21
input x: f32[N,1024]
a = Concat(x, x) {axis=0}
b = Concat(a, a) {axis=0}
c = Concat(b, b) {axis=0}
d = Concat(c, c) {axis=0}
e = Concat(d, d) {axis=0}
f = Concat(e, e) {axis=0}
y = ReduceMean(f) {keepdims=1}
output y
`

func TestFit(t *testing.T) {
	g := graphtest.Parse(t, doubling)
	require.Empty(t, graph.InferShapes(g))
	feeds := map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 256, 1024)} // 1 MiB; f is 64
	const mib = 1 << 20
	live, _ := exec.Footprint(g, feeds)
	require.EqualValues(t, 96*mib, live, "e and f")

	threads, _, err := exec.Fit(t.Context(), g, feeds, exec.Work{Threads: 4}, 0)
	require.NoError(t, err, "nobody bounds it")
	require.Equal(t, 4, threads)

	bound := exec.Doing(exec.WithMemory(t.Context(), 200*mib), exec.Demand{Live: 2})
	_, _, err = exec.Fit(bound, g, feeds, exec.Work{Threads: 4}, 0)
	var full *exec.MemoryError
	require.ErrorAs(t, err, &full)
	require.ErrorContains(t, err, "--mem 268M would do", "the process, four samples, 1.1 times two of what is alive")
	within := func(bytes int64) context.Context { // Doing within Doing is a part of it
		return exec.Doing(exec.Doing(exec.WithMemory(t.Context(), bytes), exec.Demand{Live: 2}), exec.Analyzing)
	}
	threads, _, err = exec.Fit(within(full.Bytes), g, feeds, exec.Work{Threads: 4}, 0)
	require.NoError(t, err, "the figure would do")
	require.Equal(t, 1, threads)
	threads, _, err = exec.Fit(within(full.Bytes+220*mib), g, feeds, exec.Work{Threads: 4}, 0)
	require.NoError(t, err)
	require.Equal(t, 2, threads, "one more takes 211 MiB")

	_, _, err = exec.Fit(within(full.Bytes), g, feeds, exec.Work{Extra: mib}, 0)
	require.Error(t, err, "what is kept counts")

	growing := within(full.Bytes) // samples that come later may be larger
	exec.Meets(growing, map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 300, 1024)})
	_, _, err = exec.Fit(growing, g, feeds, exec.Work{}, 0)
	require.ErrorAs(t, err, &full)
	_, _, err = exec.Fit(t.Context(), g, feeds, exec.Work{}, 100*mib)
	require.Error(t, err, "the usual bound of activations")
	_, _, err = exec.Fit(t.Context(), g, feeds, exec.Work{}, 200*mib)
	require.NoError(t, err, "beside which the process has what it needs")
}

// What the bodies of If and Loop compute counts.
func TestFitCountsBodies(t *testing.T) {
	const branches = `opset 21
input c: bool[]
input x: f32[256,1024]
y = If(c) {then_branch=graph {
  a = Concat(x, x) {axis=0}
  b = Concat(a, a) {axis=0}
  r = ReduceMean(b) {keepdims=1}
  output r
}, else_branch=graph {
  s = ReduceMean(x) {keepdims=1}
  output s
}}
output y
`
	g := graphtest.Parse(t, branches)
	require.Empty(t, graph.InferShapes(g))
	live, all := exec.Footprint(g, nil)
	require.EqualValues(t, 6<<20+4, live, "a and b, and y")
	require.EqualValues(t, 6<<20+12, all)
}

// Constants that do not fit are refused before anything is made of them, with the figure that would do.
func TestFitConstants(t *testing.T) {
	g := graphtest.Parse(t, `opset 21
input x: f32[1,1024]
const w: f32[1024,1024] = normal(seed=1)
y = MatMul(x, w)
output y
`)
	within := func(mega int64) context.Context { return exec.WithMemory(t.Context(), mega<<20) }
	doing := func(mega int64) context.Context { return exec.Doing(within(mega), exec.Demand{Weights: 20}) }
	require.ErrorContains(t, exec.FitConstants(doing(100), g), "--mem 140M would do", "the process, 1.1 times 20 times 4 MiB")
	require.NoError(t, exec.FitConstants(doing(140), g))
	require.NoError(t, exec.FitConstants(within(100), g), "nobody says what is done with them")
	require.NoError(t, exec.FitConstants(exec.Doing(t.Context(), exec.Tuning), g), "nobody bounds it")
	require.ErrorContains(t, exec.FitBeside(doing(140), g, 100<<20), "--mem 250M would do", "and 1.1 times 100 MiB")
	require.NoError(t, exec.FitBeside(doing(250), g, 100<<20))
	require.NoError(t, exec.FitBeside(t.Context(), g, 1<<40))
}

// inFiles says of every tensor that it lies in a file, or that it does not.
type inFiles struct {
	holds     bool
	forgotten int
}

func (f *inFiles) Holds(*tensor.Tensor) bool            { return f.holds }
func (f *inFiles) Forget(*tensor.Tensor)                { f.forgotten++ }
func (f *inFiles) Keep(t *tensor.Tensor) *tensor.Tensor { return t }

// Work that makes things of constants when it needs them takes memory for the largest alone, and for those that lie in no file.
func TestStream(t *testing.T) {
	text := "opset 21\ninput x0: f32[1,1024]\n"
	for i := range 32 {
		text += fmt.Sprintf("const w%d: f32[1024,1024] = normal(seed=1)\nx%d = MatMul(x%d, w%d)\n", i, i+1, i, i)
	}
	g := graphtest.Parse(t, text+"output x32\n") // 32 of 4 MiB
	files := &inFiles{holds: true}
	store := func() graph.Store { return files }
	doing := func(mega int64, d exec.Demand) context.Context {
		return exec.Doing(exec.WithMemory(t.Context(), mega<<20), d)
	}
	exec.Stream(doing(160, exec.Demand{Weights: 4}), g, store)
	require.Nil(t, g.Store, "what cannot do without")
	exec.Stream(doing(1300, exec.Demand{Weights: 4, Largest: 8}), g, store)
	require.Nil(t, g.Store, "there is room")
	streams := exec.Demand{Weights: 4, Largest: 8}
	exec.Stream(doing(160, streams), g, store)
	require.NotNil(t, g.Store)
	require.NoError(t, exec.FitConstants(doing(100, streams), g), "the process, 1.1 times 8 times 4 MiB")
	require.Zero(t, files.forgotten, "asking does not forget")
	require.ErrorContains(t, exec.FitBeside(doing(160, streams), g, 500<<20), "--mem 638M would do", "and 1.1 times 500 MiB")
	require.ErrorContains(t, exec.FitBeside(doing(160, streams), g, 1200<<20), "--mem 1936M would do",
		"which is room for 1.1 times 4 times 128 MiB")
	files.holds = false
	require.ErrorContains(t, exec.FitConstants(doing(100, streams), g), "--mem 228M would do", "and 1.1 times 128 MiB")
}

// What a session computes of constants, as of codes in a file with pairs, lies where the constants do: it takes no part of the bound.
func TestFoldedConstantsAreStored(t *testing.T) {
	text := "opset 21\ninput x0: f32[1,256]\n"
	for i := range 4 {
		text += fmt.Sprintf("const w%d: f32[256,256] = normal(seed=%d)\nn%d = Neg(w%d)\nx%d = MatMul(x%d, n%d)\n", i, i, i, i, i+1, i, i)
	}
	g := graphtest.Parse(t, text+"output x4\n") // 4 of 256 KiB
	run := func() (*tensor.Tensor, error) {
		s, err := exec.New(g, exec.Options{Memory: 600 << 10})
		if err != nil {
			return nil, err
		}
		out, err := s.NewRunner().Run(t.Context(), map[string]*tensor.Tensor{"x0": graphtest.Normal(1, 1, 256)}, nil)
		if err != nil {
			return nil, err
		}
		return out[0].Clone(), nil
	}
	_, err := run()
	require.ErrorContains(t, err, "memory budget")
	g.Store = &inFiles{}
	_, err = run()
	require.ErrorContains(t, err, "memory budget", "the store has no file for them")
	files := &inFiles{holds: true}
	g.Store = files
	_, err = run()
	require.NoError(t, err)
	require.GreaterOrEqual(t, files.forgotten, 8, "at folding, and at the run")
}
