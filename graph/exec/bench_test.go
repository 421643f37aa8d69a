package exec_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// builder adds nodes to a graph of one chain after the other.
type builder struct {
	t testing.TB
	g *graph.Graph
	n uint64
}

func (b *builder) node(op string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID {
	b.n++
	out, err := b.g.AddValue(graph.Value{Name: fmt.Sprintf("v%d", b.n)})
	require.NoError(b.t, err)
	_, err = b.g.AddNode(graph.Node{Name: fmt.Sprintf("%s_%d", op, b.n), Op: op, Attrs: attrs, Inputs: in, Outputs: []graph.ValueID{out}})
	require.NoError(b.t, err)
	return out
}

// conv adds a square convolution with "same" padding, bias and, if relu is set, an activation. Weights are scaled so that
// values keep their magnitude.
func (b *builder) conv(x graph.ValueID, in, out, k, stride int, relu bool) graph.ValueID {
	w := graphtest.Uniform(b.n, -1, 1, out, in, k, k)
	scale := 1.7 / float32(in*k*k)
	for i := range w.F32() {
		w.F32()[i] *= scale
	}
	p := int64(k / 2)
	y := b.node("Conv", []graph.ValueID{x, b.g.AddConst("w", w), b.g.AddConst("b", graphtest.Uniform(b.n, -0.1, 0.1, out))},
		graph.Ints("kernel_shape", int64(k), int64(k)), graph.Ints("strides", int64(stride), int64(stride)), graph.Ints("pads", p, p, p, p))
	if relu {
		y = b.node("Relu", []graph.ValueID{y})
	}
	return y
}

// resnet50 is the shape of ResNet-50 (version 1.5, batch normalization folded) with random weights.
func resnet50(t testing.TB) *graph.Graph {
	b := &builder{t: t, g: graph.New("resnet50", 13)}
	in, err := b.g.AddValue(graph.Value{Name: "input", DType: tensor.Float32, Shape: graph.Shape{{N: -1, Symbol: "N"}, {N: 3},
		{N: 224}, {N: 224}}})
	require.NoError(t, err)
	b.g.Inputs = []graph.ValueID{in}
	x := b.conv(in, 3, 64, 7, 2, true)
	x = b.node("MaxPool", []graph.ValueID{x}, graph.Ints("kernel_shape", 3, 3), graph.Ints("strides", 2, 2), graph.Ints("pads", 1, 1, 1, 1))
	channels := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for i := range blocks {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			short := x
			if i == 0 {
				short = b.conv(x, channels, 4*width, 1, stride, false)
			}
			x = b.conv(x, channels, width, 1, 1, true)
			x = b.conv(x, width, width, 3, stride, true)
			x = b.conv(x, width, 4*width, 1, 1, false)
			x = b.node("Relu", []graph.ValueID{b.node("Add", []graph.ValueID{x, short})})
			channels = 4 * width
		}
	}
	x = b.node("Flatten", []graph.ValueID{b.node("GlobalAveragePool", []graph.ValueID{x})})
	x = b.node("Gemm", []graph.ValueID{x, b.g.AddConst("fc", graphtest.Uniform(7, -0.02, 0.02, channels, 1000)),
		b.g.AddConst("fcb", graphtest.Uniform(8, -1, 1, 1000))})
	b.g.Outputs = []graph.ValueID{x}
	require.NoError(t, b.g.Check())
	return b.g
}

// BenchmarkForward runs a forward of batch 1. The models come from QWB_TESTDATA, except for the ResNet-50 shape.
func BenchmarkForward(b *testing.B) {
	models := []struct{ name, file string }{
		{"resnet50", ""},
		{"mobilenet_v1", "classifiers/mobilenet_v1_1.0_224.onnx"},
		{"squeezenet", "classifiers/squeezenet1.0.onnx"},
		{"resnet8", "mlperf-tiny/pretrainedResnet.onnx"},
	}
	for _, m := range models {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("model=%s/threads=%d", m.name, threads), func(b *testing.B) {
				var g *graph.Graph
				if m.file == "" {
					g = resnet50(b)
				} else {
					model, _, err := onnx.Open(filepath.Join(graphtest.TestData(b), "models", m.file))
					require.NoError(b, err)
					defer model.Close()
					g = model.Graph
				}
				s, err := exec.New(g, exec.Options{Threads: threads})
				require.NoError(b, err)
				feeds := randomFeeds(b, g, 1)
				r := s.NewRunner()
				_, err = r.Run(context.Background(), feeds, nil)
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := r.Run(context.Background(), feeds, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// randomFeeds makes float32 inputs for a graph; unknown dimensions become n.
func randomFeeds(t testing.TB, g *graph.Graph, n int) map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		val := g.Value(v)
		if val.Const != nil {
			continue
		}
		require.Equal(t, tensor.Float32, val.DType)
		shape := make([]int, len(val.Shape))
		for k, d := range val.Shape {
			if shape[k] = int(d.N); !d.Known() {
				shape[k] = n
			}
		}
		feeds[val.Name] = graphtest.Normal(uint64(i+1), shape...)
	}
	return feeds
}
