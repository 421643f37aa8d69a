package qdq_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// trained lists exports of networks that were trained with quantization (testdata/trained.py), with how many operators run on integers. The
// others read what the network does not quantize.
var trained = []struct {
	name           string
	integer, nodes int
}{
	{"fbgemm", 6, 9}, {"qnnpack", 6, 9}, {"lsq", 4, 7}, {"lsq_dynamo", 4, 7}, {"pt2e", 7, 7}, {"qcdq", 5, 7}, {"qonnx", 5, 7},
}

// What tools export of trained networks computes, imported, what ONNX Runtime computes of the file: simulated, and on integers.
func TestTrainedNetworks(t *testing.T) {
	var engine struct {
		X [][]float32            `json:"x"`
		Y map[string][][]float32 `json:"y"`
	}
	b, err := os.ReadFile(filepath.Join("testdata", "trained.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &engine))
	for _, c := range trained {
		t.Run(c.name, func(t *testing.T) {
			m, _, err := onnx.Open(filepath.Join("testdata", c.name+".onnx"))
			require.NoError(t, err)
			defer m.Close()
			graph.InferShapes(m.Graph)
			q, err := qdq.Read(context.Background(), m.Graph)
			require.NoError(t, err)
			im, err := q.Configure(&target.ONNX)
			require.NoError(t, err)
			integer, nodes := 0, 0
			for _, id := range im.Graph.Nodes() {
				n := im.Graph.Node(id)
				require.NotContains(t, []string{"Quant", "Round", "Div", "BatchNormalization", "QuantizeLinear"}, n.Op)
				if n.Op == "Identity" {
					continue // for the pair at the output
				}
				if nodes++; im.Set.Domains[id] == tqc.DomainInt {
					integer++
				}
			}
			require.Equal(t, []int{c.integer, c.nodes}, []int{integer, nodes})
			profile, err := qmath.ProfileNamed(target.ONNX.Profile)
			require.NoError(t, err)
			p, err := lower.Compile(im.Graph, im.Set, &target.ONNX, profile)
			require.NoError(t, err)
			integers, err := program.New(p, cpu.Backend, 1)
			require.NoError(t, err)
			input := im.Graph.Value(im.Graph.Inputs[0]).Name
			for i, x := range engine.X {
				feeds := map[string]*tensor.Tensor{input: tensor.FromF32(x, 1, 3, 12, 12)}
				want := engine.Y[c.name][i]
				require.InDeltaSlice(t, want, run(t, im.Graph, simulate(t, im), feeds)[0].F32(), 1e-6)
				out, err := integers.Run(context.Background(), feeds, nil)
				require.NoError(t, err)
				require.InDeltaSlice(t, want, out[0].ToRowMajor().F32(), 1e-6)
			}
		})
	}
}

// The integers of weights that were rounded into plain floats are found, with the fewest bits that hold them.
func TestFoundIntegers(t *testing.T) {
	const network = `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const z: i8[] = [0]
const w: f32[4,5] = WEIGHT
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
y = MatMul(d, w) "m"
output y`
	values := []float32{-7, 3, 0, 2, 1, 5, -6, 4, 7, 0, 1, -1, 2, -2, 3, -3, 6, -5, 4, 7}
	scaled := func(scale ...float32) []float32 {
		out := make([]float32, len(values))
		for i, v := range values {
			out[i] = v * scale[i%len(scale)]
		}
		return out
	}
	for name, c := range map[string]struct {
		weight []float32
		scales []float32
	}{
		"one scale":       {scaled(0.0123), []float32{0.0123}},
		"one per channel": {scaled(0.0123, 0.05, 0.007, 1, 0.33), nil},
		"none":            {append(scaled(0.0123)[:19], 0.1), nil},
	} {
		text, err := json.Marshal(c.weight)
		require.NoError(t, err)
		g := parsed(t, strings.Replace(network, "WEIGHT", string(text), 1))
		q, err := qdq.Read(context.Background(), g)
		require.NoError(t, err, name)
		im, err := q.Configure(&target.ONNX)
		require.NoError(t, err, name)
		id, _ := im.Graph.LookupNode("m")
		if name == "none" {
			require.Equal(t, tqc.DomainFP32, im.Set.Domains[id])
			continue
		}
		require.Equal(t, tqc.DomainInt, im.Set.Domains[id], name)
		require.Contains(t, im.Warnings[0].Text, "a scale that the file does not name")
		w := im.Set.Input(id, 1)
		require.Equal(t, [2]int32{-8, 7}, [2]int32{im.Set.Slot(w).Config.QMin, im.Set.Slot(w).Config.QMax}, name)
		if c.scales != nil {
			require.Equal(t, c.scales, im.Set.Params(w).Scale)
		} else {
			require.Len(t, im.Set.Params(w).Scale, 5)
		}
		codes, err := tqc.Quantize(im.Graph.Const(im.Set.Slot(w).Value), &im.Set.Slot(w).Config, im.Set.Params(w))
		require.NoError(t, err)
		back := make([]float32, len(codes))
		for i, k := range codes {
			back[i] = float32(k) * im.Set.Params(w).Scale[i%len(im.Set.Params(w).Scale)]
		}
		require.Equal(t, c.weight, back, "bit for bit")
	}
}
