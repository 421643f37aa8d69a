package program_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func testdata(t testing.TB, elem ...string) string {
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and data/")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// trained are networks with data to calibrate and to run on.
var trained = []struct {
	model, data, preprocess string
	samples                 int
	heavy                   bool
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

// network is a model with statistics of its data.
type network struct {
	g       *graph.Graph
	stats   *calib.Stats
	samples []map[string]*tensor.Tensor
}

func load(t testing.TB, model, from, preprocess string, n int) *network {
	m, _, err := onnx.Open(testdata(t, "models", filepath.FromSlash(model)))
	require.NoError(t, err)
	_, err = passes.Run(m.Graph, passes.Normalize)
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(m.Graph))
	spec := data.SpecOf(m.Graph)
	pre, err := data.Preprocessing(preprocess, spec, nil)
	require.NoError(t, err)
	if from[0] != 's' {
		from = testdata(t, "data", filepath.FromSlash(from))
	}
	set, _, err := data.Open([]string{from}, spec, data.Options{Preprocess: &pre, Samples: n, Seed: 1, Ahead: 2})
	require.NoError(t, err)
	net := &network{g: m.Graph}
	net.stats, err = calib.Run(context.Background(), m.Graph, set.Iterator(), calib.Config{Threads: 2})
	require.NoError(t, err)
	for i := range min(set.Len(), 4) {
		s, err := set.Sample(i)
		require.NoError(t, err)
		net.samples = append(net.samples, s.Feeds)
	}
	return net
}

func (n *network) configure(t testing.TB, platform string) *tqc.Set {
	tg, err := target.Find(platform)
	require.NoError(t, err)
	a, err := dispatch.Assign(n.g, tg, dispatch.Options{})
	require.NoError(t, err)
	table, err := decision.Fold(n.g, []decision.Decision{{By: decision.ByCalibrate, Properties: decision.Properties{Observer: tqc.ObserverMinMax}}})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(n.g, a, tg, quantizer.Options{Decisions: table})
	require.NoError(t, err)
	_, err = calib.Render(context.Background(), n.g, set, n.stats, calib.RenderConfig{Threads: 2})
	require.NoError(t, err)
	return set
}

// On trained networks and data, every step's integers are those of the simulation but for ties, and the program's outputs are close
// to those of the simulation of the whole network.
func TestTrainedNetworks(t *testing.T) {
	for _, c := range trained {
		t.Run(filepath.Base(c.model), func(t *testing.T) {
			if c.heavy && testing.Short() {
				t.Skip("takes seconds")
			}
			net := load(t, c.model, c.data, c.preprocess, c.samples)
			for platform, profiles := range map[string][]string{"onnxruntime": {"onnx", "ort", "tflite2"}, "trt_int8": {"trt"}} {
				set := net.configure(t, platform)
				s, err := sim.New(net.g, set, sim.Options{})
				require.NoError(t, err)
				session, err := exec.New(net.g, exec.Options{Threads: 2})
				require.NoError(t, err)
				for i, profile := range profiles {
					e := compiled(t, net.g, set, platform, profile)
					hook, b := stepwise(t, e.Program(), set, 2e-3)
					if i > 1 {
						hook = nil // another arithmetic: compared as a whole
					}
					same, worst := 0, 0.0
					for k, feeds := range net.samples {
						want, err := session.NewRunner().Run(context.Background(), feeds, s.Hooks(nil))
						require.NoError(t, err)
						h := hook
						if k > 0 {
							h = nil
						}
						got, err := e.Run(context.Background(), feeds, h)
						require.NoError(t, err)
						worst = max(worst, nsr(want[0], got[0]))
						if top(want[0]) == top(got[0]) {
							same++
						}
					}
					t.Logf("%s %s: %d steps, %d integers, %d ties up to %.2g from a boundary; top-1 equal in %d of %d, NSR %.2g", platform, profile,
						len(e.Program().Steps), b.compared, b.ties, b.largest, same, len(net.samples), worst)
					require.Less(t, worst, 0.05, lower.Format(e.Program()))
					if i < 2 {
						require.Equal(t, len(net.samples), same)
					}
				}
			}
		})
	}
}

func nsr(want, got *tensor.Tensor) float64 {
	num, den := 0.0, 1e-7
	for i, w := range want.F32() {
		d := float64(got.F32()[i]) - float64(w)
		num, den = num+d*d, den+float64(w)*float64(w)
	}
	return num / den
}

func top(t *tensor.Tensor) int {
	best := 0
	for i, v := range t.F32() {
		if v > t.F32()[best] {
			best = i
		}
	}
	return best
}
