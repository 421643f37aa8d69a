package device_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
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
