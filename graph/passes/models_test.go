package passes

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

func TestRealModelsKeepTheirOutputs(t *testing.T) {
	dir := testdata(t)
	cases := []struct {
		file  string
		feed  func(t *testing.T, dir string) *tensor.Tensor // real data for the only input, if there is some
		shape map[string][]int                              // of inputs with open dimensions
		long  bool
		check func(t *testing.T, g *graph.Graph, log *Log)
	}{
		{file: "classifiers/mobilenet_v1_1.0_224.onnx", feed: photograph, long: true},
		{file: "classifiers/mobilenetv2_0.35_catdog.onnx", feed: photograph, long: true, check: func(t *testing.T, g *graph.Graph, log *Log) {
			require.Equal(t, 52, log.Count("fold-batch-norm"))
		}},
		{file: "classifiers/squeezenet1.0.onnx", feed: photograph, long: true, check: func(t *testing.T, g *graph.Graph, log *Log) {
			require.Equal(t, 1, log.Count("dropouts"))
		}},
		{file: "mlperf-tiny/ad01_fp32.onnx"},
		{file: "mlperf-tiny/kws_dequant_fp32.onnx"},
		{file: "mlperf-tiny/pretrainedResnet.onnx", feed: cifar},
		{file: "mlperf-tiny/pretrainedResnet_large_float.onnx", feed: cifar},
		{file: "mlperf-tiny/str_ww_dequant_fp32.onnx"},
		{file: "mlperf-tiny/vww_96_float.onnx"},
		{file: "mnist/mnist-8.onnx", feed: digit, check: func(t *testing.T, g *graph.Graph, log *Log) {
			require.Equal(t, 1, log.Count("matmul-add-to-gemm"))
			require.Equal(t, 2, log.Count("fold-bias"))
		}},
		{file: "mnist/cnn_mnist_pytorch.onnx", feed: digit},
		{file: "ocr/en_PP-OCRv4_rec.onnx", shape: map[string][]int{"x": {1, 3, 48, 64}}, check: checkRecogniser},
		{file: "ocr/ch_PP-OCRv4_det_infer.onnx", shape: map[string][]int{"x": {1, 3, 32, 32}}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			if c.long {
				longtest.Need(t, "a large network")
			}
			model, _, err := onnx.Open(filepath.Join(dir, "models", c.file))
			require.NoError(t, err)
			before := model.Graph
			feeds := feedsOf(before)
			for name, shape := range c.shape {
				feeds[name] = graphtest.Normal(3, shape...)
			}
			if c.feed != nil {
				feeds[onlyInput(t, before)] = c.feed(t, dir)
			}
			want := values(t, before, feeds)
			g := before.Clone()
			log := normalize(t, g, Normalize...)
			t.Logf("%d nodes to %d, %d patches, %d declined, %d rounds", len(before.Nodes()), len(g.Nodes()), len(log.Applied),
				len(log.Declined), log.Rounds)
			got := values(t, g, feeds)
			worst, at := 0.0, ""
			for name, b := range got { // whatever kept its name is the same value, the outputs among them
				if a := want[name]; a != nil {
					if d := distance(a, b); d > worst {
						worst, at = d, name
					}
				}
			}
			t.Logf("largest distance %.2g at %q", worst, at)
			require.LessOrEqual(t, worst, 5e-5, at)
			for i, v := range before.Outputs {
				name := before.Value(v).Name
				require.Equal(t, name, g.Value(g.Outputs[i]).Name)
				require.NotNil(t, got[name])
				require.LessOrEqual(t, distance(want[name], got[name]), 1e-5, name)
			}
			if c.check != nil {
				c.check(t, g, log)
			}
			again, err := Run(context.Background(), g, Normalize)
			require.NoError(t, err)
			require.Empty(t, again.Applied, "the normal form is a fixed point")
			checkRaised(t, g, feeds)
		})
	}
}

// checkRaised raises the opset and compares again.
func checkRaised(t *testing.T, g *graph.Graph, feeds map[string]*tensor.Tensor) {
	raised := g.Clone()
	_, err := RaiseOpset(raised, 13)
	require.NoError(t, err)
	require.NoError(t, raised.Check())
	require.GreaterOrEqual(t, raised.Opset(""), int64(13))
	want := outputs(t, g, feeds)
	for name, b := range outputs(t, raised, feeds) {
		require.LessOrEqual(t, distance(want[name], b), 1e-6, name)
	}
}

// Of the 38 convolutions 28 are followed by a constant factor and a constant term; none of those is left.
func checkRecogniser(t *testing.T, g *graph.Graph, log *Log) {
	require.Equal(t, 28, log.Count("fold-scale-after"))
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if n.Op != "Mul" && n.Op != "Div" {
			continue
		}
		for i, v := range n.Inputs {
			if p := g.Producer(v); p != graph.NoNode && g.Node(p).Op == "Conv" {
				require.Nil(t, g.Const(n.Inputs[1-i]), "%s: a constant factor after a convolution", n.Name)
			}
		}
	}
}
