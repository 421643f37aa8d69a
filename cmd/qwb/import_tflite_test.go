package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tflite"
)

// smallLite is a network of 8 bits as TensorFlow Lite's converter writes them.
func smallLite(t *testing.T) []byte {
	t.Helper()
	bytesOf := func(v any) []byte {
		var b bytes.Buffer
		require.NoError(t, binary.Write(&b, binary.LittleEndian, v))
		return b.Bytes()
	}
	codes := func(n int) []int8 {
		q := make([]int8, n)
		for i := range q {
			q[i] = int8(i*i*7%255 - 127)
		}
		return q
	}
	grid := func(scale float32, zero int) *tflite.Quantization {
		return &tflite.Quantization{Scale: []float32{scale}, ZeroPoint: []int{zero}}
	}
	tensors := []tflite.Tensor{
		{Name: "x", Type: tflite.Int8, Shape: []int{1, 6, 5, 3}, Quantization: grid(0.02, -3)},
		{Name: "w", Type: tflite.Int8, Shape: []int{4, 3, 3, 3}, Data: bytesOf(codes(108)),
			Quantization: &tflite.Quantization{Scale: []float32{0.01, 0.013, 0.02, 0.007}, ZeroPoint: []int{0, 0, 0, 0}}},
		{Name: "b", Type: tflite.Int32, Shape: []int{4}, Data: bytesOf([]int32{500, -1000, 0, 2500}),
			Quantization: &tflite.Quantization{Scale: []float32{0.02 * 0.01, 0.02 * 0.013, 0.02 * 0.02, 0.02 * 0.007},
				ZeroPoint: []int{0, 0, 0, 0}}},
		{Name: "c", Type: tflite.Int8, Shape: []int{1, 3, 3, 4}, Quantization: grid(0.05, -128)},
		{Name: "p", Type: tflite.Int8, Shape: []int{1, 1, 1, 4}, Quantization: grid(0.05, -128)},
		{Name: "flat", Type: tflite.Int32, Shape: []int{2}, Data: bytesOf([]int32{1, 4})},
		{Name: "r", Type: tflite.Int8, Shape: []int{1, 4}, Quantization: grid(0.05, -128)},
		{Name: "v", Type: tflite.Int8, Shape: []int{3, 4}, Data: bytesOf(codes(12)), Quantization: grid(0.011, 0)},
		{Name: "d", Type: tflite.Int8, Shape: []int{1, 3}, Quantization: grid(0.1, 5)},
		{Name: "y", Type: tflite.Int8, Shape: []int{1, 3}, Quantization: grid(1.0/256, -128)},
	}
	m := &tflite.Model{Version: 3, Subgraphs: []tflite.Subgraph{{Tensors: tensors, Inputs: []int{0}, Outputs: []int{9},
		Operators: []tflite.Operator{
			{Op: "CONV_2D", Version: 3, Inputs: []int{0, 1, 2}, Outputs: []int{3}, OptionsType: "Conv2D",
				Options: tflite.Options{"stride_w": 2, "stride_h": 2, "fused_activation_function": tflite.Relu}},
			{Op: "AVERAGE_POOL_2D", Version: 2, Inputs: []int{3}, Outputs: []int{4}, OptionsType: "Pool2D",
				Options: tflite.Options{"padding": tflite.Valid, "stride_w": 3, "stride_h": 3, "filter_width": 3, "filter_height": 3}},
			{Op: "RESHAPE", Version: 1, Inputs: []int{4, 5}, Outputs: []int{6}},
			{Op: "FULLY_CONNECTED", Version: 4, Inputs: []int{6, 7, -1}, Outputs: []int{8}, OptionsType: "FullyConnected"},
			{Op: "SOFTMAX", Version: 2, Inputs: []int{8}, Outputs: []int{9}, OptionsType: "Softmax", Options: tflite.Options{"beta": float32(1)}},
		}}}}
	b, err := m.Write()
	require.NoError(t, err)
	return b
}

// TestImportTFLite: a .tflite file becomes a plan whose integers are those that tflite-runtime 2.14 computed of the same file, by its
// reference kernels (testdata/tflite-small.npz: its tensors, channels last).
func TestImportTFLite(t *testing.T) {
	golden, err := filepath.Abs("testdata/tflite-small.npz")
	require.NoError(t, err)
	workplace(t)
	write(t, "s.tflite", smallLite(t))
	if dir := os.Getenv("QWB_LIFT_OUT"); dir != "" {
		write(t, filepath.Join(dir, "small.tflite"), smallLite(t))
		return
	}
	r := done(t, "import", "s.tflite", "--json")
	o := r.object(t)
	require.Equal(t, "tflite", o["platform"])
	require.Equal(t, o["nodes"], o["integer"])
	require.Contains(t, r.stderr, `input "x" has its channels first, [1 3 6 5]: the file has [1 6 5 3]`)
	v := done(t, "verify", "s.plan.json", "--profile", "tflite2", "--against", golden, "--json").object(t)
	require.Equal(t, true, v["bit_exact"].(map[string]any)["holds"])
	require.EqualValues(t, 36+4+4+3+3, v["integers_compared"])
	require.Nil(t, v["missing"])
	for _, command := range [][]string{{"inspect", "s.tflite"}, {"export", "s.plan.json", "--platform", "tflite", "--unverified", "-o",
		"s.onnx"}, {"dispatch", "s.plan.json", "--fp32", "type:Softmax"}} {
		done(t, command...)
	}
	m, err := tflite.Read(smallLite(t))
	require.NoError(t, err)
	g := &m.Subgraphs[0] // with activations of 16 bits: their biases have 64
	g.Operators, g.Outputs = g.Operators[:1], []int{3}
	for _, id := range []int{0, 3} {
		g.Tensors[id].Type, g.Tensors[id].Quantization.ZeroPoint = tflite.Int16, []int{0}
	}
	g.Tensors[2].Type, g.Tensors[2].Data = tflite.Int64, append(make([]byte, 24), 0, 1, 0, 0, 0, 0, 0, 0)
	b, err := m.Write()
	require.NoError(t, err)
	write(t, "wide.tflite", b)
	require.Equal(t, "tflite_16x8", done(t, "import", "wide.tflite", "--json").object(t)["platform"])
	g.Tensors[2].Data[4] = 1
	b, err = m.Write()
	require.NoError(t, err)
	write(t, "wider.tflite", b)
	fails(t, exitFailed, `operator 0 CONV_2D: bias "b": element 0 is 4294967296: ONNX has no pair for more than 32 bits`, "import",
		"wider.tflite")
	write(t, "broken.tflite", smallLite(t)[:500])
	fails(t, exitFailed, "broken.tflite: .*read tflite", "import", "broken.tflite")
}
