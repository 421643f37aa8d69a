package cprogram_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

func testdata(t *testing.T, elem ...string) string {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and data/")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// Trained networks, calibrated on data: every integer of every step equals the reference's on every sample.
func TestTrainedNetworks(t *testing.T) {
	compiler(t)
	for _, c := range []struct {
		model, data, preprocess string
		samples                 int
		platform                string
		profiles                []string
		heavy                   bool
	}{
		{"mlperf-tiny/pretrainedResnet.onnx", "cifar10/eval_2000.bin", "none", 10, "onnxruntime", []string{"tflite2", "ort"}, false},
		{"mlperf-tiny/pretrainedResnet.onnx", "cifar10/eval_2000.bin", "none", 10, "trt_int8", []string{"trt"}, false},
		{"mlperf-tiny/ad01_fp32.onnx", "synthetic:4", "none", 4, "onnxruntime", []string{"tflite1"}, false},
		{"mlperf-tiny/kws_dequant_fp32.onnx", "synthetic:4", "none", 4, "onnxruntime", []string{"tflite2"}, false},
		{"mlperf-tiny/vww_96_float.onnx", "synthetic:4", "none", 4, "onnxruntime", []string{"tflite2", "onnx"}, true},
		{"mlperf-tiny/str_ww_dequant_fp32.onnx", "synthetic:4", "none", 4, "onnxruntime", []string{"tflite2"}, false},
		{"classifiers/squeezenet1.0.onnx", "pets/calibration", "imagenet-caffe", 1, "onnxruntime", []string{"ort"}, true},
	} {
		t.Run(filepath.Base(c.model)+"/"+c.platform, func(t *testing.T) {
			if c.heavy {
				longtest.Need(t, "compiles much")
			}
			m, _, err := onnx.Open(testdata(t, "models", filepath.FromSlash(c.model)))
			require.NoError(t, err)
			defer m.Close()
			g := m.Graph
			_, err = passes.Run(context.Background(), g, passes.Normalize)
			require.NoError(t, err)
			require.Empty(t, graph.InferShapes(g))
			spec := data.SpecOf(g)
			pre, err := data.Preprocessing(c.preprocess, spec, nil)
			require.NoError(t, err)
			if c.data[0] != 's' {
				c.data = testdata(t, "data", filepath.FromSlash(c.data))
			}
			set, _, err := data.Open([]string{c.data}, spec, data.Options{Preprocess: &pre, Samples: c.samples, Seed: 1, Ahead: 2})
			require.NoError(t, err)
			stats, err := calib.Run(context.Background(), g, set.Iterator(), calib.Config{Threads: 2})
			require.NoError(t, err)
			tg, err := target.Find(c.platform)
			require.NoError(t, err)
			a, err := dispatch.Assign(g, tg, dispatch.Options{})
			require.NoError(t, err)
			configs, _, err := quantizer.Configure(g, a, tg, quantizer.Options{})
			require.NoError(t, err)
			_, err = calib.Render(context.Background(), g, configs, stats, calib.RenderConfig{Threads: 2})
			require.NoError(t, err)
			for _, profile := range c.profiles {
				p, err := lowered(g, configs, tg, profile)
				require.NoError(t, err)
				first, err := set.Sample(0)
				require.NoError(t, err)
				all := observed(p)
				binary := generated(t, all, bound(g, first.Feeds), strict)
				e, err := program.New(all, program.Reference, 2)
				require.NoError(t, err)
				total := 0
				for i := range set.Len() {
					s, err := set.Sample(i)
					require.NoError(t, err)
					feeds := map[string]*tensor.Tensor{}
					for name, x := range s.Feeds {
						feeds[name] = x.ToRowMajor()
					}
					want, err := e.Run(context.Background(), feeds, nil)
					require.NoError(t, err)
					total += same(t, all, want, execute(t, binary, all, feeds))
				}
				t.Logf("%s: %d steps, %d integers compared, 0 different", profile, len(p.Steps), total)
			}
		})
	}
}
