package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Pow2 is an accelerator without multipliers behind its accumulators, as synthesized for FPGAs and built into small NPUs: all scales
// are powers of two, all zero points 0, so that every change of scale is a shift, rounded half to even (ap_fixed with AP_RND_CONV).
// What has no form in shifts is computed by the host, and stands in no row: Softmax, Sigmoid, Tanh, products of two tensors'
// elements by a divisor, normalizations. The inputs of an Add and a Sub share one scale, so that the adder needs no shifter, and
// maximum pools and moves keep theirs.
var Pow2 = Target{
	Name: "pow2_int8",
	Doc:  "FPGAs and NPUs that only shift: symmetric int8 with power-of-two scales, per-channel weights, int32 bias, Q/DQ form",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted, Needs: []Condition{ConstantWeight}},

		{Type: "Add", Role: Arithmetic, Align: AlignLarge},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sub", Role: Arithmetic, Align: AlignLarge},

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, moving([]string{"Gather"})),
	Activation: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear | tqc.PowerOf2,
		Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127}, Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear | tqc.PowerOf2,
		Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127}, Observer: tqc.ObserverMinMax},
	Bias: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear | tqc.PowerOf2,
		Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}},
	Schemes: Schemes{
		Activation: schemesOf("int8-sym-tensor-pow2", "int16-sym-tensor-pow2"),
		Weight:     schemesOf("int8-sym-channel-pow2", "int8-sym-tensor-pow2", "int4-sym-channel-pow2", "int4-sym-tensor-pow2"),
	},
	Placement: Everywhere,
	Fusions:   []Fusion{{pattern.Attention, true}, {pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, true}},
	Float:     FloatHost,
	Island:    qmath.FP32,
	Profile:   "pow2-half-even",
	// The host is slow and far away: integers pay wherever they can be computed.
	BorderCost: 1,
	Export: Export{MinOpset: 13, MaxOpset: 21, RankZero: true, SignedOnly: true, ZeroPointZero: true, Int8Weights: true,
		PassiveScale: true},
}
