package qwb

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// What was found by hand in trained networks is found without help: the mean shift of mobilenet_v1's weights, and the depthwise
// convolutions of a text recogniser whose channels differ in range. Three networks that lose little are left alone.
func TestAdviceOnTrainedNetworks(t *testing.T) {
	longtest.Need(t, "trained networks")
	root := graphtest.TestData(t)
	for _, c := range []struct {
		model, data, preprocess, platform string
		cause                             string   // "" for none
		nodes                             []string // among those of the advice
	}{
		{"classifiers/mobilenet_v1_1.0_224.onnx", "pets/calibration", "imagenet-inception", "onnxruntime", advise.MeanShift.Name,
			[]string{"depthwise_conv_2d_1", "conv_2d_2", "conv_2d_24"}},
		{"ocr/en_PP-OCRv4_rec.onnx", "ocr", "lines.yaml", "trt_int8", advise.Depthwise.Name, []string{"p2o.Conv.1", "p2o.Conv.3", "p2o.Conv.5",
			"p2o.Conv.7", "p2o.Conv.9"}},
		{"classifiers/squeezenet1.0.onnx", "pets/calibration", "imagenet-caffe", "onnxruntime", "", nil},
		{"mlperf-tiny/pretrainedResnet.onnx", "cifar10/calibration_500.bin", "none", "onnxruntime", "", nil},
		{"mlperf-tiny/pretrainedResnet_large_float.onnx", "cifar10/calibration_500.bin", "none", "onnxruntime", "", nil},
	} {
		t.Run(filepath.Base(c.model), func(t *testing.T) {
			t.Chdir(t.TempDir())
			p := &Project{Model: filepath.Join(root, "models", filepath.FromSlash(c.model)), Plan: "m" + PlanSuffix,
				Catalog: Catalog{Backends: []program.Backend{program.Reference, cpu.Backend}}}
			put(t, p.job().Files(), "lines.yaml", []byte("resize: {size: [48, 320]}\nchannel_order: bgr\nmean: 127.5\nstd: 127.5\n"))
			data := DataOptions{Paths: []string{filepath.Join(root, "data", filepath.FromSlash(c.data))}, Preprocess: c.preprocess, Samples: 48}
			borders := 0.0 // depthwise convolutions stay on integers
			o := CalibrateOptions{Platform: c.platform, BorderCost: &borders, Data: data, Threads: 2}
			_, _, err := p.Calibrate(context.Background(), o)
			require.NoError(t, err)
			a := AnalyzeOptions{Data: DataOptions{Samples: 6}}
			a.Layerwise, a.Outputs, a.Threads = true, true, 2
			r, _, err := p.Analyze(context.Background(), a)
			require.NoError(t, err)
			for _, x := range r.Advice {
				t.Logf("%s %v: %s\n%s\n", x.Cause, x.Nodes, x.Evidence, x.Command)
			}
			if c.cause == "" {
				require.Empty(t, r.Advice)
				return
			}
			at := slices.IndexFunc(r.Advice, func(x analysis.Advice) bool { return x.Cause == c.cause })
			require.GreaterOrEqual(t, at, 0)
			require.Subset(t, r.Advice[at].Nodes, c.nodes)
			require.Less(t, *r.Advice[at].Predicted, 0.8**r.Advice[at].Before)
		})
	}
}
