package sim_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/sim"
)

// counting counts how often a tensor was out of use.
type counting map[*tensor.Tensor]int

func (c counting) Holds(*tensor.Tensor) bool            { return true }
func (c counting) Forget(t *tensor.Tensor)              { c[t]++ }
func (c counting) Keep(t *tensor.Tensor) *tensor.Tensor { return t }

// A graph that forgets its constants computes what another does, in floats and simulated; nothing large that was made of them is left, and
// each was said to be out of use.
func TestForgottenConstants(t *testing.T) {
	const depth = 6
	text := "opset 21\ninput x0: f32[1,512]\n"
	for i := range depth {
		text += fmt.Sprintf("const w%d: f32[512,512] = normal(seed=%d, std=0.04)\nx%d = MatMul(x%d, w%d)\n", i, i+1, i+1, i, i)
	}
	g, set, feeds := lowertest.Configured(t, text+fmt.Sprintf("output x%d\n", depth), "trt_int8")
	forgotten := counting{}
	run := func(g *graph.Graph) (out [2]*tensor.Tensor, held int64) {
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err)
		q, err := sim.New(g, set, sim.Options{})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		runner := s.NewRunner()
		for i, hooks := range []*exec.Hooks{nil, q.Hooks(nil)} {
			list, err := runner.Run(t.Context(), feeds, hooks)
			require.NoError(t, err)
			out[i] = list[0]
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(runner)
		runtime.KeepAlive(q)
		return out, int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	want, kept := run(g)
	streamed := g.Clone()
	streamed.Store = forgotten
	got, held := run(streamed.Clone())
	for i := range want {
		require.True(t, tensor.Equal(want[i], got[i]))
	}
	require.False(t, tensor.Equal(want[0], want[1]), "something is quantized")
	require.Len(t, forgotten, depth)
	const weight = 512 * 512 * 4
	require.Greater(t, kept, int64(2*depth*weight), "packed, quantized, and packed again")
	require.Less(t, held, int64(3*weight))
}
