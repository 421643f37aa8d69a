package onnxqdq

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// A zero point of another type makes other codes than the file records: ONNX Runtime refuses it.
func TestRecordedTypes(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[4]\nconst s: f32[] = 0.1\nconst z: i8[] = 0\nq = QuantizeLinear(x, s, z) \"q_n\"\noutput q")
	said := make([]tensor.DType, g.NumValues())
	v, _ := g.Lookup("q")
	said[v] = tensor.Uint8
	graph.InferShapes(g)
	list := recorded(g, said)
	require.Len(t, list, 1)
	require.Equal(t, "q_n", list[0].Node)
	require.Equal(t, `"q" is recorded as u8, and the operator gives i8`, list[0].Text)
	said[v] = tensor.Int8
	require.Empty(t, recorded(g, said))
}
