package device_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/grad"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
)

// load opens a model and makes inputs for it, open dimensions being those given.
func load(t *testing.T, name string, dims ...int) (*graph.Graph, map[string]*tensor.Tensor) {
	t.Helper()
	m, _, err := onnx.Open(filepath.Join(graphtest.TestData(t), "models", name))
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{}
	for i, v := range m.Graph.Inputs {
		val := m.Graph.Value(v)
		if val.Const != nil {
			continue
		}
		var shape []int
		for _, d := range val.Shape {
			if d.Known() {
				shape = append(shape, int(d.N))
				continue
			}
			shape, dims = append(shape, dims[0]), dims[1:]
		}
		feeds[val.Name] = graphtest.Uniform(uint64(i), 0, 1, shape...)
		if val.DType == tensor.Int32 { // bytes of a file
			bytes := tensor.New(tensor.Int32, shape...)
			for k, list := 0, tensor.Of[int32](bytes); k < len(list); k++ {
				list[k] = int32(k * 7 % 257)
			}
			feeds[val.Name] = bytes
		}
	}
	return m.Graph, feeds
}

// Real networks, every value of them.
func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		name string
		dims []int
		host []string // operators that run on the host
		long bool
	}{
		{name: "mnist/mnist-8.onnx"},
		{name: "mnist/cnn_mnist_pytorch.onnx", dims: []int{2}},
		{name: "mlperf-tiny/ad01_fp32.onnx", dims: []int{3}},
		{name: "mlperf-tiny/kws_dequant_fp32.onnx", dims: []int{1}},
		{name: "mlperf-tiny/kws_ref_model.qdq.onnx", dims: []int{1}, long: true},
		{name: "mlperf-tiny/pretrainedResnet.onnx", dims: []int{1}, long: true},
		{name: "mlperf-tiny/vww_96_float.onnx", dims: []int{1}, long: true},
		{name: "mlperf-tiny/str_ww_dequant_fp32.onnx", dims: []int{1}, long: true},
		{name: "ocr/ch_PP-OCRv4_det_infer.onnx", dims: []int{1, 32, 64}, long: true},
		{name: "ocr/en_PP-OCRv4_rec.onnx", dims: []int{1, 24}, long: true},
		{name: "vision/blazeface_front_128.onnx", dims: []int{1}, long: true},
		{name: "speech/embedding_model.onnx", dims: []int{1}, long: true},
		{name: "filetype/magika_v3_3.onnx", dims: []int{1}, long: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				longtest.Need(t, "takes a minute on an interpreted device")
			}
			g, feeds := load(t, c.name, c.dims...)
			run := func(t *testing.T, d *cuda.Device) {
				p := both(t, d, g, feeds)
				var host []string
				for _, h := range p.OnHost() {
					host = append(host, h.Op)
				}
				assert.Equal(t, c.host, host)
			}
			if c.long {
				run(t, oneDevice(t))
				return
			}
			cudatest.Each(t, run)
		})
	}
}

// What package grad writes of a dense and a depthwise convolution, a transposed one and a product: weights that are computed, a kernel as
// large as the image, transposed depthwise ones.
func TestGradients(t *testing.T) {
	g, err := graph.Parse(`
input x: f32[2,4,7,6]
input w: f32[6,4,1,1]
input d: f32[6,1,3,3]
input u: f32[6,1,2,2]
input v: f32[6,5]
a = Conv(x, w)
b = Conv(a, d) {group=6, pads=[1,1,1,1], strides=[2,1], dilations=[1,2]}
c = ConvTranspose(b, u) {group=6, strides=[2,2]}
p = Transpose(c) {perm=[0,2,3,1]}
y = MatMul(p, v)
output y`)
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(g))
	shape, _ := g.Value(g.Outputs[0]).Shape.Ints()
	seed := g.AddConst("seed", graphtest.Uniform(9, -1, 1, shape...))
	list, err := grad.Add(g, map[graph.ValueID]graph.ValueID{g.Outputs[0]: seed}, g.Inputs)
	require.NoError(t, err)
	g.Outputs = append(g.Outputs, list...)
	require.Empty(t, graph.InferShapes(g))
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		s, _ := g.Value(v).Shape.Ints()
		feeds[g.Value(v).Name] = graphtest.Uniform(uint64(i), -1, 1, s...)
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) { assert.Empty(t, both(t, d, g, feeds).OnHost()) })
}
