package verify_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// chain has activations behind each other, one of several nodes, and a Sub.
const chain = `
input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(1)
const b: f32[4] = normal(2)
a: f32[1,4,8,8] = Conv(x, w, b) "conv"
l: f32[1,4,8,8] = LeakyRelu(a) "leaky"
c: f32[1,4,8,8] = Clip(l) "clip"
e: f32[1,4,8,8] = Conv(c, w) "next"
s: f32[1,4,8,8] = Sigmoid(e) "gate"
y: f32[1,4,8,8] = Mul(e, s) "swish"
d: f32[1,4,8,8] = Add(y, c) "sum"
f: f32[1,4,8,8] = Conv(d, w) "last"
output f
`

// Whatever the placement, the alignment and the chains of a target: its integers are the exact values rounded.
func TestPlacementsAndAlignmentsHold(t *testing.T) {
	edit := func(base target.Target, f func(op *target.Op)) *target.Target {
		base.Ops = slices.Clone(base.Ops)
		for i := range base.Ops {
			f(&base.Ops[i])
		}
		return &base
	}
	inputs := edit(target.ONNXRuntime, func(op *target.Op) { op.Align, op.FixedScale, op.Finer = target.AlignNone, 0, 0 })
	inputs.Placement = target.AllInputs
	align := func(a target.Align, overlap bool) *target.Target {
		return edit(target.ONNXRuntime, func(op *target.Op) {
			if op.Role == target.Arithmetic && op.FixedScale == 0 {
				op.Align, op.Overlap = a, overlap
			}
		})
	}
	networks := maps.Clone(lowertest.Networks)
	networks["chain"] = chain
	for name, tg := range map[string]*target.Target{"all inputs": inputs, "large": align(target.AlignLarge, true),
		"input":  align(target.AlignInput, false),
		"output": align(target.AlignOutput, true), "openvino_int8": &target.OpenVINO, "pow2_int8": &target.Pow2} {
		profile, err := qmath.ProfileNamed(tg.Profile)
		require.NoError(t, err)
		compared := int64(0)
		for _, network := range slices.Sorted(maps.Keys(networks)) {
			t.Run(name+"/"+network, func(t *testing.T) {
				l := prepared(t, networks[network], tg)
				var err error
				compile := lower.Compile
				if tg == inputs { // what its arithmetic operators compute is float
					compile = lower.CompilePartial
				}
				l.p, err = compile(l.g, l.set, tg, profile)
				require.NoError(t, err)
				v := l.verify(t, program.Reference)
				require.Empty(t, v.Static.Faults)
				require.Zero(t, v.IntegersDifferent, "%+v", v.First)
				require.True(t, v.Holds())
				compared += v.IntegersCompared
			})
		}
		require.Positive(t, compared, name)
	}
}
