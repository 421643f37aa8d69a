package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
)

// TestHalfFloats: a network in float16 is quantized, fed with float32 arrays, and exported with the types that it had; what has no such
// inputs takes the network that bind wrote.
func TestHalfFloats(t *testing.T) {
	inFolder(t)
	g := graphtest.Parse(t, `
graph small
opset 17
input x: f32[1,3,8,8]
const w1: f32[16,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[16,16,3,3] = normal(seed=2, std=0.1)
c = Conv(x, w1) {pads=[1, 1, 1, 1]} "c1"
r = Relu(c) "r1"
y = Conv(r, w2) {pads=[1, 1, 1, 1]} "c2"
output y: f32[1,16,8,8]`)
	for _, v := range g.Values() {
		if c := g.Const(v); c != nil {
			half := tensor.New(tensor.Float16, c.Shape...)
			for i, x := range c.F32() {
				tensor.Of[uint16](half)[i] = qmath.HalfBits(x)
			}
			g.SetConst(v, half)
		}
		g.Value(v).DType = tensor.Float16
	}
	require.NoError(t, (&onnx.Model{Graph: g}).Save("m.onnx", onnx.SaveOptions{}))
	saveArray(t, "x.npy", graphtest.Normal(7, 8, 3, 8, 8))

	done(t, "calibrate", "m.onnx", "--data", "x.npy", "--platform", "onnxruntime")
	for _, format := range []string{"onnx", "qoperator"} {
		done(t, "export", "m.plan.json", "--format", format, "-o", format+".onnx")
		m, _, err := onnx.Open(format + ".onnx")
		require.NoError(t, err)
		require.Equal(t, tensor.Float16, m.Graph.Value(m.Graph.Inputs[0]).DType, format)
		require.Equal(t, tensor.Float16, m.Graph.Value(m.Graph.Outputs[0]).DType, format)
		require.Equal(t, "x", m.Graph.Value(m.Graph.Inputs[0]).Name)
		require.NoError(t, m.Close())
	}
	done(t, "gate", "m.plan.json", "--data", "x.npy", "--max-nsr", "0.01")

	fails(t, exitFailed, "could not be exported.*bind MODEL --float32", "calibrate", "m.onnx", "--data", "x.npy", "--platform", "ncnn_int8",
		"-o", "t.plan.json")
	require.NoFileExists(t, "t.plan.json")
	done(t, "bind", "m.onnx", "--float32", "-o", "wide.onnx")
	done(t, "calibrate", "wide.onnx", "--data", "x.npy", "--platform", "ncnn_int8")
	done(t, "export", "wide.plan.json")
}
