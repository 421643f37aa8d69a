package qoperator_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/export/qoperator"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

const products = `
input x: f32[3,40]
const w1: f32[40,24] = normal(seed=1, std=0.3)
const w2: f32[5,24] = normal(seed=2, std=0.3)
const b2: f32[5] = normal(3)
const w3: f32[1,1,1,1] = normal(4)
const shape: i64[4] = [1, 1, 3, 5]
a: f32[3,24] = MatMul(x, w1) "product"
r: f32[3,24] = Relu(a) "relu"
b: f32[3,5] = Gemm(r, w2, b2) {transB=1} "fc"
c: f32[1,1,3,5] = Reshape(b, shape) "image"
d: f32[1,1,3,5] = Conv(c, w3) "conv"
output d
`

// weightOnly configures the products for weights of a scheme in float, with scales by hand.
func weightOnly(t *testing.T, scheme string) (*graph.Graph, *tqc.Set, *target.Target) {
	t.Helper()
	tg := target.ONNXRuntime
	s, err := tqc.ParseScheme(scheme)
	require.NoError(t, err)
	tg.Weight, err = s.Apply(tg.Weight)
	require.NoError(t, err)
	tg.Schemes.Weight, tg.Ops = nil, append([]target.Op(nil), tg.Ops...)
	for i := range tg.Ops {
		tg.Ops[i].Schemes = target.Schemes{}
	}
	g := graphtest.Parse(t, products)
	require.Empty(t, graph.InferShapes(g))
	a, err := dispatch.Assign(g, &tg,
		dispatch.Options{Forced: []dispatch.Forced{{Nodes: g.Nodes(), Who: dispatch.ByUser, Domain: tqc.DomainWeights}}})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &tg, quantizer.Options{})
	require.NoError(t, err)
	weights := 0
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if sl.State() != tqc.Initial {
			continue
		}
		weights++
		require.True(t, sl.Weight, "only weights are quantized")
		n, known := tqc.NumScales(g.Value(sl.Value).Shape, &sl.Config)
		require.True(t, known)
		var p tqc.Params
		for i := range n {
			p.Scale, p.ZeroPoint = append(p.Scale, 0.05+float32(i)/1024), append(p.ZeroPoint, 0)
			if sl.Config.Policy.Has(tqc.Asymmetric) {
				p.ZeroPoint[i] = 7 + int32(i)%3
			} else if !sl.Config.Signed() {
				p.ZeroPoint[i] = 128
			}
		}
		require.NoError(t, set.Render(id, p))
	}
	require.Equal(t, 3, weights)
	for name, want := range map[string]tqc.Domain{"product": tqc.DomainWeights, "relu": tqc.DomainFP32, "fc": tqc.DomainWeights,
		"image": tqc.DomainFP32, "conv": tqc.DomainWeights} {
		id, _ := g.LookupNode(name)
		require.Equal(t, want, set.Domains[id], name)
	}
	return g, set, &tg
}

// Weights alone are quantized: simulation, program and both files compute the same, but for the order of float sums.
func TestWeightsOnly(t *testing.T) {
	profile, err := qmath.ProfileNamed("ort")
	require.NoError(t, err)
	for scheme, left := range map[string]bool{"int4-sym-g32": false, "uint4-asym-g16": false, "int8-sym-g16": false, "int8-sym-channel": false,
		"int4-sym-channel": false, "uint8-asym-tensor": false, "e4m3-sym-channel": true, "int16-sym-tensor": true} {
		t.Run(scheme, func(t *testing.T) {
			g, set, tg := weightOnly(t, scheme)
			feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(9, 3, 40)}
			simulator, err := sim.New(g, set, sim.Options{})
			require.NoError(t, err)
			s, err := exec.New(g, exec.Options{})
			require.NoError(t, err)
			want, err := s.NewRunner().Run(context.Background(), feeds, simulator.Hooks(nil))
			require.NoError(t, err)

			p, err := lower.Compile(g, set, tg, profile)
			require.NoError(t, err)
			x, err := program.New(p, program.Reference, 1)
			require.NoError(t, err)
			defer x.Close()
			got, err := x.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			require.True(t, tensor.Equal(want[0], got[0]), "the island has the weights of the plan")

			m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, tg, onnxqdq.Options{})
			require.NoError(t, err)
			integer := func(string) bool { return false }
			require.Empty(t, onnxqdq.Check(m.Graph, tg, integer))
			require.Empty(t, onnxqdq.Check(m.Graph, tg, nil), "float activations beside quantized weights are what the file means")
			run := func() *tensor.Tensor {
				s, err := exec.New(m.Graph, exec.Options{})
				require.NoError(t, err)
				out, err := s.NewRunner().Run(context.Background(), feeds, nil)
				require.NoError(t, err)
				return out[0]
			}
			require.True(t, tensor.Equal(want[0], run()), "Q/DQ")

			readBack(t, g, set, tg)
			kept, err := qoperator.Fold(m.Graph)
			require.NoError(t, err)
			require.Equal(t, left, len(kept) > 0, "%v", kept)
			if left {
				require.ErrorContains(t, kept[0].Why, "MatMulNBits has 4 and 8 bits")
				return
			}
			require.Equal(t, 2, operators(m.Graph)["MatMulNBits"])
			require.Empty(t, qoperator.Check(m.Graph, tg))
			for i, y := range run().F32() {
				require.InDelta(t, want[0].F32()[i], y, 1e-4*(1+math.Abs(float64(y))))
			}
			node(t, m.Graph, "fc").SetAttr(graph.Int("block_size", 8))
			require.NotEmpty(t, qoperator.Check(m.Graph, tg))
		})
	}
}
