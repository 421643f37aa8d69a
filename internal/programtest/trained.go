package programtest

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
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Testdata is a file or folder of QWB_TESTDATA; without it the test is skipped.
func Testdata(t testing.TB, elem ...string) string {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and data/")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// Trained are networks with data to calibrate and to run on.
var Trained = []struct {
	Model, Data, Preprocess string
	Samples                 int
	Heavy                   bool
}{
	{"mlperf-tiny/pretrainedResnet.onnx", "cifar10/eval_2000.bin", "none", 20, false},
	{"mlperf-tiny/ad01_fp32.onnx", "synthetic:4", "none", 4, false},
	{"mlperf-tiny/kws_dequant_fp32.onnx", "synthetic:4", "none", 4, false},
	{"mlperf-tiny/vww_96_float.onnx", "synthetic:4", "none", 4, false},
	{"mnist/mnist-8.onnx", "mnist/t10k-images-idx3-ubyte.gz", "none", 20, false},
	{"mnist/cnn_mnist_pytorch.onnx", "mnist/t10k-images-idx3-ubyte.gz", "none", 20, false},
	{"classifiers/mobilenetv2_0.35_catdog.onnx", "pets/calibration", "imagenet-inception", 4, false},
	{"mlperf-tiny/pretrainedResnet_large_float.onnx", "cifar10/eval_2000.bin", "none", 3, true},
	{"classifiers/squeezenet1.0.onnx", "pets/calibration", "imagenet-caffe", 1, true},
	{"classifiers/mobilenet_v1_1.0_224.onnx", "pets/calibration", "imagenet-inception", 1, true},
}

// Network is a model with statistics of its data.
type Network struct {
	Graph   *graph.Graph
	stats   *calib.Stats
	Samples []map[string]*tensor.Tensor
}

// Load opens a model of the test data and collects statistics of n samples; the first four are kept.
func Load(t testing.TB, model, from, preprocess string, n int) *Network {
	m, _, err := onnx.Open(Testdata(t, "models", filepath.FromSlash(model)))
	require.NoError(t, err)
	_, err = passes.Run(context.Background(), m.Graph, passes.Normalize)
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(m.Graph))
	spec := data.SpecOf(m.Graph)
	pre, err := data.Preprocessing(preprocess, spec, nil)
	require.NoError(t, err)
	if from[0] != 's' {
		from = Testdata(t, "data", filepath.FromSlash(from))
	}
	set, _, err := data.Open([]string{from}, spec, data.Options{Preprocess: &pre, Samples: n, Seed: 1, Ahead: 2})
	require.NoError(t, err)
	net := &Network{Graph: m.Graph}
	net.stats, err = calib.Run(context.Background(), m.Graph, set.Iterator(), calib.Config{Threads: 2})
	require.NoError(t, err)
	for i := range min(set.Len(), 4) {
		s, err := set.Sample(i)
		require.NoError(t, err)
		net.Samples = append(net.Samples, s.Feeds)
	}
	return net
}

// Configure quantizes the network for a platform, with ranges from the smallest to the largest value.
func (n *Network) Configure(t testing.TB, platform string) *tqc.Set {
	tg, err := target.Find(platform)
	require.NoError(t, err)
	a, err := dispatch.Assign(n.Graph, tg, dispatch.Options{})
	require.NoError(t, err)
	table, err := decision.Fold(n.Graph,
		[]decision.Decision{{By: decision.ByCalibrate, Properties: decision.Properties{Observer: tqc.ObserverMinMax}}})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(n.Graph, a, tg, quantizer.Options{Decisions: table})
	require.NoError(t, err)
	_, err = calib.Render(context.Background(), n.Graph, set, n.stats, calib.RenderConfig{Threads: 2})
	require.NoError(t, err)
	return set
}
