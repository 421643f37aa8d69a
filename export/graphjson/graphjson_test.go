package graphjson_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/graphjson"
	"qwb/internal/exporttest"
)

const network = `
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = normal(1)
const b: f32[3] = normal(2)
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
e = Exp(r) "exp"
output e
`

// The file has every tensor and operator once, and of each slot what the set has.
func TestFile(t *testing.T) {
	f := graphjson.Format()
	in := exporttest.Input(t, &f, network, "onnxruntime", nil)
	dir, names := exporttest.Write(t, &f, in)
	require.Equal(t, []string{"m.json"}, names)
	b, err := os.ReadFile(filepath.Join(dir, "m.json"))
	require.NoError(t, err)
	var d graphjson.Document
	require.NoError(t, json.Unmarshal(b, &d))
	require.Equal(t, "onnxruntime", d.Platform)
	require.Equal(t, []string{"x"}, d.Inputs)
	require.Equal(t, []string{"e"}, d.Outputs)
	require.Len(t, d.Tensors, 6)
	require.Equal(t, graphjson.Tensor{Name: "w", DType: "f32", Shape: []int64{3, 2, 1, 1}, Constant: true}, d.Tensors[1])
	require.Len(t, d.Nodes, 3)
	conv, relu, exp := d.Nodes[0], d.Nodes[1], d.Nodes[2]
	require.Equal(t, "INT8", conv.Domain)
	require.Equal(t, "conv", relu.With)
	require.Equal(t, "FP32", exp.Domain)
	require.Empty(t, exp.Slots)
	require.Len(t, conv.Slots, 4)
	p := in.Set.Params(in.Set.Input(0, 1))
	require.Len(t, conv.Slots[1].Scale, 3)
	require.Equal(t, float64(p.Scale[2]), conv.Slots[1].Scale[2])
	require.Equal(t, "OVERLAPPED", conv.Slots[3].State)
	require.Equal(t, "relu.out0", conv.Slots[3].Root)
	require.Empty(t, conv.Slots[3].Scale)
}

func TestDoctor(t *testing.T) {
	f := graphjson.Format()
	text := func(old, new string) func(testing.TB, string) { return exporttest.Replace("m.json", old, new) }
	exporttest.Doctor(t, &f, network, "onnxruntime", []exporttest.Fault{
		{Rule: "once", Plant: text(`"name": "w"`, `"name": "x"`)},
		{Rule: "tensor", Plant: text(`"name": "w"`, `"name": "v"`)},
		{Rule: "root", Plant: text(`"root": "relu.out0"`, `"root": "relu.out1"`)},
		{Rule: "state", Plant: text(`"OVERLAPPED"`, `"ASLEEP"`)},
		{Rule: "scale", Plant: text(`"zero_point": [`, `"zero_point": [1,`)},
	})
}
