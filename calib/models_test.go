package calib_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/internal/longtest"
	"qwb/quantizer"
	"qwb/quantizer/tqc"
)

func testdata(t *testing.T, elem ...string) string {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and data/")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// A real network on real images: every target and automatic choice, and memory that does not grow with the images.
func TestRealModel(t *testing.T) {
	m, _, err := onnx.Open(testdata(t, "models", "mlperf-tiny", "pretrainedResnet.onnx"))
	require.NoError(t, err)
	g := m.Graph
	_, err = passes.Run(context.Background(), g, passes.Normalize)
	require.NoError(t, err)
	open := func(n int) *data.Set {
		set, _, err := data.Open([]string{testdata(t, "data", "cifar10", "calibration_500.bin")}, data.SpecOf(g),
			data.Options{Samples: n, Seed: 1, Ahead: 2})
		require.NoError(t, err)
		return set
	}
	heap := func(n int) (*calib.Stats, uint64) {
		s, err := calib.Run(context.Background(), g, open(n).Iterator(), calib.Config{Threads: 2})
		require.NoError(t, err)
		require.Equal(t, n, s.Samples())
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		return s, mem.HeapAlloc
	}
	few, many := 20, 100
	if !longtest.Wanted(t) {
		few, many = 10, 30
	}
	a, small := heap(few)
	b, large := heap(many)
	require.NotNil(t, a)
	tensors := uint64(len(b.Names()))
	// Two sets of statistics are alive at the second measurement; a sample adds its hash and nothing else.
	require.Less(t, large, 2*small+tensors*16<<10, "%d tensors", tensors)

	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		set := configure(t, g, platform, quantizer.Options{})
		out := render(t, g, set, b, calib.RenderConfig{Observer: tqc.ObserverAuto, Threads: 2})
		require.Greater(t, len(out.Choices), 8)
		for _, c := range out.Choices {
			t.Logf("%s %s: %s [%.4g, %.4g] %v", platform, c.Tensor, c.Observer, c.Range.Lo, c.Range.Hi, c.Errors)
		}
	}
}
