package onnxqdq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower/lowertest"
)

// Linear layers of more than two axes: with integer biases they are matrices between two Reshapes, those in a row share one pair; with
// float biases they stay one node, which package onnx writes as MatMul and Add.
func TestLinearLayers(t *testing.T) {
	for platform, want := range map[string][]string{
		"onnxruntime":   {"Reshape", "Gemm", "Relu", "Gemm", "Reshape", "Add"},
		"openvino_int8": {"Gemm", "Relu", "Gemm", "Add"},
	} {
		g := graphtest.Parse(t, lowertest.Networks["linear"])
		require.Empty(t, graph.InferShapes(g))
		tg := findTarget(t, platform)
		set := configure(t, g, tg, "")
		calibrated(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(g, set)))
		var ops []string
		order, err := m.Graph.Order()
		require.NoError(t, err)
		for _, id := range order {
			if op := m.Graph.Node(id).Op; op != "QuantizeLinear" && op != "DequantizeLinear" {
				ops = append(ops, op)
			}
		}
		require.Equal(t, want, ops, platform)
		for _, err := range graph.InferShapes(m.Graph) {
			require.NoError(t, err, platform)
		}
	}
}

// Rows whose length shapes do not tell, as behind a Reshape to a computed shape, are as long as the weights say.
func TestRowsOfUnknownLength(t *testing.T) {
	g := graphtest.Parse(t, lowertest.Networks["linear"])
	require.Empty(t, graph.InferShapes(g))
	tg := findTarget(t, "onnxruntime")
	set := configure(t, g, tg, "")
	calibrated(t, g, set)
	open := graph.Dim{N: -1}
	g.Value(g.Inputs[0]).Shape = graph.Shape{open, open, open}
	m := build(t, &onnx.Model{Graph: g}, set, tg)
	require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(g, set)))
	for _, v := range m.Graph.Values() {
		if c := m.Graph.Const(v); c != nil && strings.HasSuffix(m.Graph.Value(v).Name, "_rows_shape") {
			require.Positive(t, c.I64()[1])
		}
	}
}

// Names of the Reshapes that are taken get a number, and are known again.
func TestLinearLayersBesideTheirNames(t *testing.T) {
	f := onnxqdq.Format()
	text := strings.NewReplacer("x", "up", `"res"`, `"down_back"`, `"relu"`, `"up_rows"`).Replace(lowertest.Networks["linear"])
	exporttest.Equal(t, &f, exporttest.Input(t, &f, text, "onnxruntime", nil))
}

func TestDamagedLinearLayersAreFound(t *testing.T) {
	f := onnxqdq.Format()
	shape := func(dims ...int64) func(*tensor.Tensor) *tensor.Tensor {
		return func(*tensor.Tensor) *tensor.Tensor { return tensor.FromI64(dims, len(dims)) }
	}
	for platform, faults := range map[string][]exporttest.Damaged{
		"onnxruntime": {
			{What: "a code of a bias", Plant: exporttest.Constant("b1_quantized", exporttest.Moved(1))},
			{What: "rows of another length", Plant: exporttest.Constant("up_rows_shape", shape(-1, 4))},
			{What: "axes that change places", Plant: exporttest.Constant("down_back_shape", shape(5, 2, 8))},
		},
		"openvino_int8": {
			{What: "a float bias", Plant: exporttest.Constant("b2", exporttest.Longer)},
			{What: "a bias that is missing", Plant: exporttest.EditModel(func(t testing.TB, g *graph.Graph) {
				at, ok := g.LookupNode("up_bias")
				require.True(t, ok)
				use, sole := g.SoleUse(g.Node(at).Outputs[0])
				require.True(t, sole)
				g.SetInput(use.Node, use.Index, g.Node(at).Inputs[0])
				g.RemoveNode(at)
			})},
		},
	} {
		t.Run(platform, func(t *testing.T) { exporttest.ReadBack(t, &f, lowertest.Networks["linear"], platform, faults) })
	}
}
