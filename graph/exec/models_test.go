package exec_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// TestRealModels runs the trained models: planned and observed runs give what the first run gives, to the bit.
func TestRealModels(t *testing.T) {
	for _, folder := range []string{"classifiers", "mlperf-tiny", "mnist", "vision"} {
		paths, err := filepath.Glob(filepath.Join(graphtest.TestData(t), "models", folder, "*.onnx"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".onnx"), func(t *testing.T) {
				m, _, err := onnx.Open(path)
				require.NoError(t, err)
				defer m.Close()
				s, err := exec.NewPoisoned(m.Graph, exec.Options{Threads: 2})
				require.NoError(t, err)
				feeds := randomFeeds(t, m.Graph, 1)
				r := s.NewRunner()
				ctx := context.Background()
				want, err := r.Run(ctx, feeds, nil)
				require.NoError(t, err)
				again, err := r.Run(ctx, feeds, nil)
				require.NoError(t, err)
				equalAll(t, want, again, "planned")
				seen := 0
				observed, err := r.Run(ctx, feeds, &exec.Hooks{Output: func(*graph.Node, int, *tensor.Tensor) error { seen++; return nil }})
				require.NoError(t, err)
				equalAll(t, want, observed, "observed")
				assert.GreaterOrEqual(t, seen, len(m.Graph.Nodes()))
			})
		}
	}
}

// TestRecordedOutput compares with what the author of a quantized model recorded.
func TestRecordedOutput(t *testing.T) {
	dir := filepath.Join(graphtest.TestData(t), "models", "quantized", "mobilenet_v2_ort")
	m, _, err := onnx.Open(filepath.Join(dir, "mobilenet_v2_qdq.onnx"))
	require.NoError(t, err)
	defer m.Close()
	read := func(name string) *tensor.Tensor {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		_, x, err := onnx.ReadTensor(b)
		require.NoError(t, err)
		return x
	}
	s, err := exec.New(m.Graph, exec.Options{Threads: 2})
	require.NoError(t, err)
	got, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"image": read("input_0.pb")}, nil)
	require.NoError(t, err)
	want := read("output_0.pb")
	assert.Equal(t, top(want.F32()), top(got[0].F32()))
	dot, a2, b2 := 0.0, 0.0, 0.0
	for i, a := range want.F32() {
		b := got[0].F32()[i]
		dot, a2, b2 = dot+float64(a*b), a2+float64(a*a), b2+float64(b*b)
	}
	assert.Greater(t, dot*dot/(a2*b2), 0.998, "squared cosine")
}

func top(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
