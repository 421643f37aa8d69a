package exec_test

import (
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

	bound := exec.WithMemory(t.Context(), 200*mib)
	_, _, err = exec.Fit(bound, g, feeds, exec.Work{Threads: 4}, 0)
	var full *exec.MemoryError
	require.ErrorAs(t, err, &full)
	require.ErrorContains(t, err, "--mem 241M would do")
	threads, _, err = exec.Fit(exec.WithMemory(t.Context(), full.Bytes), g, feeds, exec.Work{Threads: 4}, 0)
	require.NoError(t, err, "the figure would do")
	require.Equal(t, 1, threads)
	threads, _, err = exec.Fit(exec.WithMemory(t.Context(), full.Bytes+200*mib), g, feeds, exec.Work{Threads: 4}, 0)
	require.NoError(t, err)
	require.Equal(t, 2, threads, "one more takes 192 MiB")

	_, _, err = exec.Fit(exec.WithMemory(t.Context(), full.Bytes), g, feeds, exec.Work{Extra: mib}, 0)
	require.Error(t, err, "what is kept counts")
	_, _, err = exec.Fit(t.Context(), g, feeds, exec.Work{}, 100*mib)
	require.Error(t, err, "the usual bound of activations")
	_, _, err = exec.Fit(t.Context(), g, feeds, exec.Work{}, 200*mib)
	require.NoError(t, err, "beside which the process has what it needs")
}
