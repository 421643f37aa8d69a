package graph_test

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// archive returns the files of the ONNX backend tests by folder and name below it.
func archive(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	files := map[string]map[string][]byte{}
	graphtest.EachVectorFile(t, func(file string, b []byte) {
		dir, name := path.Split(file)
		if base := path.Base(dir); strings.HasPrefix(base, "test_data_set_") {
			dir, name = path.Dir(path.Clean(dir)), base+"/"+name
		}
		dir = path.Clean(dir)
		if files[dir] == nil {
			files[dir] = map[string][]byte{}
		}
		files[dir][name] = b
	})
	return files
}

// dataDependent are the operators whose output's size depends on the elements of their inputs, on float16 ones, or on the
// iterations of a loop.
var dataDependent = []string{"Compress", "NonMaxSuppression", "NonZero", "Unique", "Range", "Loop", "Scan", "Expand", "Concat"}

// TestInferredShapesOfBackendTests infers every model of the ONNX backend tests from its recorded inputs and compares the
// outputs with the recorded ones.
func TestInferredShapesOfBackendTests(t *testing.T) {
	exact, open, unknown := 0, 0, map[string]bool{}
	for dir, files := range archive(t) {
		raw, ok := files["model.onnx"]
		if !ok {
			continue
		}
		m, _, err := onnx.Read(bytes.NewReader(raw), int64(len(raw)), nil)
		require.NoError(t, err, dir)
		g := m.Graph
		if op := unknownOp(g); op != "" {
			unknown[op] = true
			continue
		}
		forget(g)
		for i, v := range g.Inputs {
			if in := recorded(files, fmt.Sprintf("test_data_set_0/input_%d.pb", i)); in != nil {
				g.SetConst(v, in)
			}
		}
		for _, err := range graph.InferShapes(g) {
			t.Errorf("%s: %v", dir, err)
		}
		for i, v := range g.Outputs {
			want := recorded(files, fmt.Sprintf("test_data_set_0/output_%d.pb", i))
			if want == nil {
				continue
			}
			val := g.Value(v)
			got, known := val.Shape.Ints()
			switch {
			case known && val.DType == want.DType && slices.Equal(got, want.Shape):
				exact++
			case !known && (val.DType == want.DType || val.DType == tensor.Undefined) && (open < 100 && hasOp(g, dataDependent)):
				open++
			default:
				t.Errorf("%s output %d: %s, recorded %s", dir, i, graph.FormatType(val.DType, val.Shape), want.Type())
			}
		}
	}
	require.Greater(t, exact, 1850)
	for op := range unknown {
		ok := strings.HasPrefix(op, "ai.onnx.") || strings.Contains(op, "Sequence") || strings.Contains(op, "String") ||
			strings.Contains(op, "Optional") || strings.HasSuffix(op, "Loss")
		require.True(t, ok || slices.Contains([]string{"RegexFullMatch", "TfIdfVectorizer", "ImageDecoder", "LinearAttention",
			"CausalConvWithState"}, op), "operator %s is not in the table", op)
	}
}

// recorded reads a tensor of a test data set, nil if there is none (or a sequence).
func recorded(files map[string][]byte, name string) *tensor.Tensor {
	_, v, err := onnx.ReadTensor(files[name])
	if err != nil || v == nil || v.DType == tensor.Undefined {
		return nil
	}
	return v
}

// forget removes the recorded types of what nodes compute.
func forget(g *graph.Graph) {
	for _, v := range g.Values() {
		if val := g.Value(v); g.Producer(v) != graph.NoNode {
			val.DType, val.Shape = tensor.Undefined, nil
		}
	}
}

func hasOp(g *graph.Graph, ops []string) bool {
	return slices.ContainsFunc(g.Nodes(), func(id graph.NodeID) bool { return slices.Contains(ops, g.Node(id).Op) })
}

func unknownOp(g *graph.Graph) string {
	for _, id := range g.Nodes() {
		if n := g.Node(id); n.Spec() == nil {
			return strings.TrimPrefix(n.Domain+"::"+n.Op, "::")
		}
	}
	return ""
}

// TestInferredShapesOfTrainedModels compares what is inferred with what the models record, and their work with published
// figures: multiply-accumulates of MobileNet 569 M, MobileNetV2 300 M and 59 M (here without
// its 1,000 classes), SqueezeNet 1.1 350 M, the MLPerf Tiny networks 12.5 M, 2.66 M, 7.5 M and 0.264 M.
func TestInferredShapesOfTrainedModels(t *testing.T) {
	for _, c := range []struct {
		path   string
		macs   int64
		convs  int
		output string
	}{
		{"classifiers/mobilenet_v1_1.0_224.onnx", 568_741_376, 28, "f32[1,1001]"},
		{"classifiers/mobilenetv2_0.35_catdog.onnx", 58_134_008, 52, "f32[N,2]"},
		{"classifiers/squeezenet1.0.onnx", 349_151_936, 26, "f32[1,1000,1,1]"},
		{"quantized/mobilenet_v2_tinynn_qdq.onnx", 300_774_272, 52, "f32[1,1000]"},
		{"mlperf-tiny/pretrainedResnet.onnx", 12_501_632, 9, "f32[1,10]"},
		{"mlperf-tiny/pretrainedResnet_quant.qdq.onnx", 12_501_632, 9, "f32[1,10]"},
		{"mlperf-tiny/kws_dequant_fp32.onnx", 2_656_768, 9, "f32[1,12]"},
		{"mlperf-tiny/vww_96_float.onnx", 7_489_664, 27, "f32[1,2]"},
		{"mlperf-tiny/ad01_fp32.onnx", 264_192, 0, "f32[1,640]"},
		{"mnist/mnist-8.onnx", 786_560, 2, "f32[1,10]"},
		{"filetype/magika_v3_3.onnx", -1, 1, "f32[unk__214,214]"},
		{"vision/blazeface_front_128.onnx", 30_760_960, 37, "f32[1,512,1]"},
		{"speech/embedding_model.onnx", -1, 20, "f32[unk__314,1,1,96]"},
	} {
		m, _, err := onnx.Open(filepath.Join(graphtest.TestData(t), "models", c.path))
		require.NoError(t, err)
		g := m.Graph
		declared := map[graph.ValueID]string{}
		for _, v := range g.Values() {
			if s, ok := g.Value(v).Shape.Ints(); ok {
				declared[v] = tensor.TypeString(g.Value(v).DType, s)
			}
		}
		forget(g)
		require.Empty(t, graph.InferShapes(g), c.path)
		macs, convs := int64(0), 0
		for _, id := range g.Nodes() {
			n, ok := g.MACs(id)
			require.True(t, ok, "%s: %s", c.path, graph.FormatNode(g, id))
			macs += n
			if g.Node(id).Op == "Conv" {
				convs++
			}
		}
		for v, want := range declared {
			require.Equal(t, want, graph.FormatType(g.Value(v).DType, g.Value(v).Shape), "%s: %s", c.path, g.Value(v).Name)
		}
		out := g.Value(g.Outputs[0])
		assert.Equal(t, c.output, graph.FormatType(out.DType, out.Shape), c.path)
		assert.Equal(t, c.convs, convs, c.path)
		if c.macs >= 0 {
			assert.Equal(t, c.macs, macs, c.path)
		}
		require.NoError(t, m.Close())
	}
}
