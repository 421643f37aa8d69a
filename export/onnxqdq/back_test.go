package onnxqdq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
)

func TestDamagedFilesAreFound(t *testing.T) {
	f := onnxqdq.Format()
	for platform, faults := range map[string][]exporttest.Damaged{
		"onnxruntime": {
			{What: "a code of a weight", Plant: exporttest.Constant("w1_quantized", exporttest.Moved(-2))},
			{What: "a code of a bias", Plant: exporttest.Constant("b2_quantized", exporttest.Moved(1))},
			{What: "a scale of a weight", Plant: exporttest.Constant("w1_scale", exporttest.Longer)},
			{What: "a scale of a bias", Plant: exporttest.Constant("b1_scale", exporttest.Longer)},
			{What: "a scale of a tensor", Plant: exporttest.Constant("x_scale", exporttest.Longer)},
			{What: "a zero point of a tensor", Plant: exporttest.Constant("x_zero_point", exporttest.Moved(1))},
			{What: "a zero point of a weight", Plant: exporttest.Constant("w3_zero_point", exporttest.Moved(1))},
			{What: "a pair that is missing", Plant: exporttest.EditModel(func(t testing.TB, g *graph.Graph) {
				id, ok := g.LookupNode("conv2")
				require.True(t, ok)
				v, ok := g.Lookup("x")
				require.True(t, ok)
				g.SetInput(id, 0, v)
			})},
		},
		"trt_int8": {
			{What: "a float weight", Plant: exporttest.Constant("w1", func(x *tensor.Tensor) *tensor.Tensor {
				for i := range x.F32() {
					x.F32()[i] *= 0.98
				}
				return x
			})},
			{What: "a float bias", Plant: exporttest.Constant("b1", exporttest.Longer)},
		},
		"trt_fp8": {
			{What: "a float weight", Plant: exporttest.Constant("w1", func(x *tensor.Tensor) *tensor.Tensor {
				x.F32()[0] *= 1.5
				return x
			})},
		},
	} {
		t.Run(platform, func(t *testing.T) {
			exporttest.ReadBack(t, &f, victim, platform, append(faults, exporttest.Rewired(nil)...))
		})
	}
}

// What a branch computes is held by no pair, and by no other item.
func TestDamagedBranchesAreFound(t *testing.T) {
	const network = `
input x: f32[1,3,8,8]
const w: f32[4,3,3,3] = normal(seed=1, std=0.2)
const yes: bool[] = true
c = Conv(x, w) "conv"
s = ReduceMax(c) {keepdims=0} "top"
const zero: f32[] = 0
p = Greater(s, zero) "positive"
y = If(p) {then_branch=graph { a = Relu(c); output a }, else_branch=graph { const k: f32[] = 2; b = Mul(c, k); output b }} "either"
output y
`
	f := onnxqdq.Format()
	exporttest.ReadBack(t, &f, network, "onnxruntime", []exporttest.Damaged{exporttest.Branched(nil)})
}
