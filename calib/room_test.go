package calib_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/file"
)

// spilled keeps counters, and nothing else, in files without a name.
type spilled struct{ file.Maps }

func (s *spilled) Holds(*tensor.Tensor) bool { return false }
func (s *spilled) Forget(*tensor.Tensor)     {}
func (s *spilled) Keep(t *tensor.Tensor) *tensor.Tensor {
	counts, ok := t.Data.([]uint32)
	if !ok {
		return t
	}
	b := s.Spill(unsafe.Slice((*byte)(unsafe.Pointer(&counts[0])), 4*len(counts)))
	if b == nil {
		return t
	}
	return &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(counts))}
}

// Bins that lie in files are the same, after any number of samples, resumed and read again, and take no memory.
func TestBinsInFiles(t *testing.T) {
	const depth = 60
	text := "opset 21\ninput x: f32[1,3,8,8]\na = Flatten(x)\nconst w: f32[192,64] = normal(seed=99)\nx0 = MatMul(a, w)\n"
	for i := range depth {
		op := []string{"Tanh(a%d)", "Relu(a%d)", "Softmax(a%d)"}[i%3]
		text += fmt.Sprintf("const w%d: f32[64,64] = normal(seed=%d)\na%d = MatMul(x%d, w%d)\nx%d = "+op+"\n", i, i+1, i, i, i, i+1, i)
	}
	g := parse(t, text+fmt.Sprintf("output x%d\n", depth))
	samples := images(9, 9)
	take := func(g *graph.Graph) (*calib.Stats, int64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := run(t, g, samples[:6], calib.Config{})
		s = run(t, g, samples, calib.Config{Resume: s, Threads: 2})
		runtime.GC()
		runtime.ReadMemStats(&after)
		return s, int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	want, held := take(g)
	store := new(spilled)
	defer func() { require.NoError(t, store.Release()) }()
	if store.Spill(make([]byte, 8)) == nil {
		t.Skip("this system has no files without a name")
	}
	g = g.Clone()
	g.Store = store
	got, left := take(g)
	require.Equal(t, encoded(t, want), encoded(t, got))
	require.Greater(t, held, int64(2*depth*80<<10), "histograms of %d tensors", 2*depth)
	require.Less(t, left, held/8)
	code := encoded(t, got)
	again, err := calib.ReadIn(store, bytes.NewReader(code), int64(len(code)))
	require.NoError(t, err)
	require.Equal(t, code, encoded(t, again))
}
