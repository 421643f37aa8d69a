package onnxqdq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
)

// Where OpenVINO would reduce all axes, whatever the attribute says, the file has the opset from which on it reads them.
func TestReductionsGetTheOpsetThatOpenVINOReads(t *testing.T) {
	for op, want := range map[string]int64{"ReduceL1": 18, "ReduceLogSumExp": 18, "ReduceL2": 13, "ReduceMax": 13} {
		g := graphtest.Parse(t, "opset 13\ninput x: f32[2,8,16]\nconst w: f32[16,4] = normal(seed=1)\nm = MatMul(x, w) \"m\"\ny = "+op+
			"(m) {axes=[1]} \"r\"\noutput y\n")
		require.Empty(t, graph.InferShapes(g))
		tg := findTarget(t, "openvino_int8")
		set := configure(t, g, tg, "")
		calibrated(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		require.Equal(t, want, m.Graph.Opset(""), op)
		id, ok := m.Graph.LookupNode("r")
		require.True(t, ok)
		require.Equal(t, want == 18, m.Graph.Node(id).Input(1) != graph.NoValue)
	}
}
