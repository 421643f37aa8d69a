package qdq_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Operators on integers, imported and simulated, each on what ONNX Runtime computed before it, give ONNX Runtime's integers. Its
// kernels of Add, Concat and AveragePool round differently where a number lies next to the middle between two integers.
func TestQOperators(t *testing.T) {
	text, err := os.ReadFile("testdata/qoperators.txt")
	require.NoError(t, err)
	src, err := os.ReadFile("testdata/qoperators.json")
	require.NoError(t, err)
	var want struct {
		X       []float32
		Tensors map[string][]int32
	}
	require.NoError(t, json.Unmarshal(src, &want))
	g := parsed(t, string(text))
	im := imported(t, g, &target.ONNX)
	require.Equal(t, len(g.Nodes())-2, len(im.Graph.Nodes()), "the operators without Q and DQ at the ends")
	for _, id := range im.Graph.Nodes() {
		require.Equal(t, tqc.DomainInt, im.Set.Domains[id], im.Graph.Node(id).Name)
	}
	hooks := *simulate(t, im)
	quantize := hooks.Output
	hooks.Wants = nil
	compared := 0
	hooks.Output = func(n *graph.Node, i int, x *tensor.Tensor) error {
		if err := quantize(n, i, x); err != nil {
			return err
		}
		id, ok := g.LookupNode(n.Name)
		require.True(t, ok)
		name := g.Value(g.Node(id).Outputs[0]).Name
		own, _ := im.Graph.LookupNode(n.Name)
		p := im.Set.Params(im.Set.Output(own, 0))
		scale, zero := float64(p.Scale[0]), float64(p.ZeroPoint[0])
		recorded := tensor.New(tensor.Float32, x.Shape...)
		require.Len(t, want.Tensors[name], x.Len(), name)
		differ := 0
		for k, v := range x.ToRowMajor().F32() {
			q := math.Round(float64(v)/scale) + zero
			r := float64(want.Tensors[name][k])
			require.InDelta(t, r, q, 1, "%s, element %d", name, k)
			if q != r {
				differ++
			}
			recorded.F32()[k] = float32(want.Tensors[name][k]-p.ZeroPoint[0]) * p.Scale[0]
		}
		require.LessOrEqual(t, float64(differ), max(1, 0.05*float64(x.Len())), name)
		if x.Layout == tensor.ChannelsLast {
			recorded = recorded.ToChannelsLast()
		}
		copy(x.F32(), recorded.F32())
		compared++
		return nil
	}
	run(t, im.Graph, &hooks, map[string]*tensor.Tensor{"x": tensor.FromF32(want.X, 1, 4, 8, 8)})
	require.Equal(t, len(want.Tensors), compared)
}
