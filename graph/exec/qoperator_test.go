package exec_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// TestRunsQuantizedModels runs networks that onnxruntime.quantization made integers of and compares every tensor of integers in
// them with ONNX Runtime's, and the float results: see testdata/microsoft.py.
func TestRunsQuantizedModels(t *testing.T) {
	f, err := os.Open("testdata/qoperator.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var cases []struct {
		Model []byte
		runtimeCase
	}
	require.NoError(t, json.NewDecoder(z).Decode(&cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		m, _, err := onnx.Read(bytes.NewReader(c.Model), int64(len(c.Model)), nil)
		require.NoError(t, err)
		s, err := exec.NewPoisoned(m.Graph, exec.Options{Threads: 2})
		require.NoError(t, err)
		feeds := map[string]*tensor.Tensor{m.Graph.Value(m.Graph.Inputs[0]).Name: c.Inputs[0].tensor(t)}
		got, err := s.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		c.compare(t, got)
		ops := map[string]bool{}
		for _, id := range m.Graph.Nodes() {
			ops[m.Graph.Node(id).Op] = true
		}
		for _, op := range []string{"QLinearConv", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearLeakyRelu", "QLinearSigmoid",
			"QLinearAveragePool", "QLinearGlobalAveragePool", "QGemm", "QLinearSoftmax"} {
			assert.True(t, ops[op], "the network has no %s", op)
		}
	}
}
