package quantizer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	gpasses "qwb/graph/passes"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// On real networks: (nearly) all work is on integers, with as few borders as the network allows, and the plan restores the set.
func TestRealModels(t *testing.T) {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/")
	}
	for _, c := range []struct {
		file    string
		share   float64
		borders [2]int // trt_int8, onnxruntime
	}{
		{"classifiers/mobilenet_v1_1.0_224.onnx", 1, [2]int{4, 2}}, // on TensorRT the average pool is float
		{"classifiers/mobilenetv2_0.35_catdog.onnx", 1, [2]int{4, 2}},
		{"classifiers/squeezenet1.0.onnx", 1, [2]int{2, 2}},
		{"mlperf-tiny/pretrainedResnet_large_float.onnx", 0.9999, [2]int{2, 2}},
		{"mlperf-tiny/ad01_fp32.onnx", 1, [2]int{2, 2}},
		{"mnist/mnist-8.onnx", 1, [2]int{2, 2}},
	} {
		m, _, err := onnx.Open(filepath.Join(dir, "models", c.file))
		require.NoError(t, err)
		g := m.Graph
		_, err = gpasses.Run(context.Background(), g, gpasses.Normalize)
		require.NoError(t, err)
		require.Empty(t, graph.InferShapes(g))
		for i, tg := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} {
			a, err := dispatch.Assign(g, tg, dispatch.Options{})
			require.NoError(t, err)
			integer, total := a.Work()
			require.GreaterOrEqual(t, float64(integer), c.share*float64(total), "%s on %s", c.file, tg.Name)
			require.Len(t, a.Borders(), c.borders[i], "%s on %s", c.file, tg.Name)
			set, warnings, err := quantizer.Configure(g, a, tg, quantizer.Options{})
			require.NoError(t, err)
			require.Empty(t, warnings)
			p, err := plan.FromSet(g, set, plan.Meta{})
			require.NoError(t, err)
			b, err := p.Encode()
			require.NoError(t, err)
			p, err = plan.Parse("p", b)
			require.NoError(t, err)
			back, err := p.Apply(g)
			require.NoError(t, err)
			for id := range tqc.SlotID(set.NumSlots()) {
				w, h := set.Save(id), back.Save(id)
				require.Equal(t, [3]any{w.State, w.Root, w.Config}, [3]any{h.State, h.Root, h.Config})
			}
		}
	}
}
