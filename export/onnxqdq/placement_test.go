package onnxqdq_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// variants are targets that differ from a built-in one in what a row or a placement says.
func variants() map[string]*target.Target {
	edit := func(base target.Target, f func(op *target.Op)) *target.Target {
		base.Ops = slices.Clone(base.Ops)
		for i := range base.Ops {
			f(&base.Ops[i])
		}
		return &base
	}
	inputs := edit(target.ONNXRuntime, func(op *target.Op) { op.Align, op.FixedScale, op.Finer = target.AlignNone, 0, 0 })
	inputs.Placement = target.AllInputs
	inputs.Export.QuantizedOutputs, inputs.Export.OneType, inputs.Export.PassiveScale = false, false, false
	align := func(a target.Align, overlap bool) *target.Target {
		return edit(target.ONNXRuntime, func(op *target.Op) {
			if op.Role == target.Arithmetic && op.FixedScale == 0 {
				op.Align, op.Overlap = a, overlap
			}
		})
	}
	chains := *edit(target.ONNXRuntime, func(op *target.Op) {
		if op.Type == "LeakyRelu" {
			op.Role = target.Activation
		}
	})
	chains.Chain, chains.Profile = 4, "onnx"
	chains.Fusions = target.OpenVINO.Fusions
	return map[string]*target.Target{"all inputs": inputs, "large": align(target.AlignLarge, false),
		"large, overlap": align(target.AlignLarge, true),
		"input":          align(target.AlignInput, false), "output": align(target.AlignOutput, false),
		"output, overlap": align(target.AlignOutput, true), "chains": &chains, "openvino_int8": &target.OpenVINO, "pow2_int8": &target.Pow2}
}

// Whatever a row or the placement says, the file keeps the target's rules and computes what the simulation does.
func TestPlacementsAndAlignmentsAreExported(t *testing.T) {
	networks := maps.Clone(lowertest.Networks)
	networks["chain"] = `
input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(1)
a: f32[1,4,8,8] = Conv(x, w) "conv"
b: f32[1,4,8,8] = LeakyRelu(a) "leaky"
c: f32[1,4,8,8] = Clip(b) "clip"
d: f32[1,4,8,8] = Relu(c) "relu"
e: f32[1,4,8,8] = Conv(d, w) "next"
s: f32[1,4,8,8] = Sigmoid(e) "gate"
y: f32[1,4,8,8] = Mul(e, s) "swish"
f: f32[1,4,8,8] = Conv(y, w) "last"
output f
`
	for name, tg := range variants() {
		require.NoError(t, tg.Validate(), name)
		for _, network := range slices.Sorted(maps.Keys(networks)) {
			t.Run(name+"/"+network, func(t *testing.T) {
				g, set, _ := lowertest.ConfiguredFor(t, networks[network], tg)
				_, m := written(t, build(t, &onnx.Model{Graph: g}, set, tg))
				require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(g, set)))
				requireSimulation(t, g, set, m, 2)
			})
		}
	}
}

// Numbers that are put to an activation's result are computed with it where the engine fuses several: one pair stands behind them.
func TestNumbersBehindAnActivationHaveOnePair(t *testing.T) {
	for platform, want := range map[string]int{"openvino_int8": 2, "onnxruntime": 4} {
		g := graphtest.Parse(t, `input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(seed=1)
const v: f32[4,1,3,3] = normal(seed=2)
const factor: f32[1] = 0.2
const less: f32[1] = -0.2
c = Conv(x, w)
h = HardSwish(c)
m = Mul(factor, h)
a = Add(m, less)
y = Conv(a, v) {group=4, pads=[1,1,1,1]}
output y
`)
		require.Empty(t, graph.InferShapes(g))
		tg := findTarget(t, platform)
		set := configure(t, g, tg, "")
		calibrated(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		pairs := 0
		for _, id := range m.Graph.Nodes() {
			if m.Graph.Node(id).Op == "QuantizeLinear" {
				pairs++
			}
		}
		require.Equal(t, want, pairs, platform)
		require.Empty(t, onnxqdq.Check(m.Graph, tg, nil))
	}
}
