package target

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// OpenVINO is the CPU plugin of OpenVINO reading Q/DQ models. Its ONNX reader turns every pair into a FakeQuantize, and its
// low-precision transformations move what dequantizes behind the operators that know integers (OpenVINO documentation, "Low Precision
// Transformations", and src/common/low_precision_transformations). Convolutions and matrix products then read 8-bit integers, add
// their bias and everything fused behind in float, and round once. What those transformations do not know is computed in float there
// and stands in no row: Softmax, Sigmoid, Tanh, exponentials, normalizations. A zero point of a second factor, or of a first one beside a
// computed second one, stays in front of the product, which is float then.
var OpenVINO = Target{
	Name: "openvino_int8",
	Doc:  "OpenVINO on CPUs, Q/DQ form: asymmetric uint8 activations, per-channel int8 weights, float bias and epilogue",
	// Its transformations take tensors of one axis for others (docs/engines.md).
	Ops: needing(TwoAxes, slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, NotOneColumn, SeveralSlices, NotTiny, ReadsColumns}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight, WithoutGaps, DenseSteps}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, ChannelBias, SeveralTerms}, SignedFactors: true},
		{Type: "MatMul", Role: Weighted, Needs: []Condition{SeveralTerms}, SignedFactors: true},

		{Type: "Add", Role: Arithmetic, FloatNorm: true},
		// Padding counts as code 0 there, not as the number 0 (docs/engines.md).
		{Type: "AveragePool", Role: Arithmetic, Needs: []Condition{UncountedPads}},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput, FloatEnd: true},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sub", Role: Arithmetic, Needs: []Condition{NotFromJoined}},

		// Computed in float by the operator before them, which rounds behind them.
		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "HardSigmoid", Role: Activation},
		{Type: "HardSwish", Role: Activation},
		{Type: "LeakyRelu", Role: Activation},
		{Type: "PRelu", Role: Activation, Needs: []Condition{ChannelSlopes}},
		{Type: "Relu", Role: Activation, Alone: true},
		{Type: "Sigmoid", Role: Activation},
		{Type: "Tanh", Role: Activation},
	}, moving([]string{"Pad"},
		// It loses track of zero points along a padded axis that is reshaped, as relative positions are (docs/engines.md).
		Op{Type: "Pad", Role: Passive, Needs: []Condition{Copies, NotReshaped, SeveralPadded}},
		Op{Type: "ReduceMax", Role: Passive}, Op{Type: "ReduceMin", Role: Passive}))),
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255},
		Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Schemes: Schemes{
		// OpenVINO 2026.4 opens int16 activations and 8-bit floats too, and computes other numbers with them than ONNX defines.
		Activation: schemesOf("uint8-asym-tensor", "int8-sym-tensor", "uint8-sym-tensor"),
		Weight: schemesOf("int8-sym-channel", "int8-sym-tensor", "int4-sym-channel", "int4-sym-tensor", "int4-sym-g16", "int4-sym-g32",
			"int4-sym-g64", "int4-sym-g128"),
	},
	// Without VNNI the plugin adds two u8*i8 products in a saturating int16, as NNCF's half_range has it.
	ReducedWeight: [2]int32{-64, 64},
	Placement:     Everywhere,
	FloatOutputs:  true, // a primitive's last step is a conversion from int32 or float to any type
	Fusions: []Fusion{{pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, false}, {pattern.HardSwish, false},
		{pattern.Mish, false}, {pattern.Swish, false}},
	Chain:   3,
	Float:   FloatNative,
	Island:  qmath.FP32,
	Profile: "trt",
	// Pointwise convolutions between float operators take as long on integers as in float at 16 multiply-accumulates an element, 0.94 at 20.
	BorderCost: 20,
	Export:     Export{MinOpset: 13, MaxOpset: 21, RankZero: true, PassiveScale: true, SubsampleFirst: true, GuardFloat: true},
}

// OpenVINOAMX is OpenVINO on processors with AMX, where its convolutions take up to a third more time for a zero point of what they read
// (examples/engines/measured/tuned.md); products by constants do not, and neither do convolutions without AMX.
var OpenVINOAMX = derive(&OpenVINO, func(t *Target) {
	t.Name = "openvino_int8_amx"
	t.Doc = "OpenVINO on CPUs with AMX: as openvino_int8, but convolutions read int8 without zero points where numbers may be negative"
	for i := range t.Ops {
		op := &t.Ops[i]
		op.SignedInput = graph.Slides(op.Type) && op.Role == Weighted
		if op.Type == "Conv" {
			op.Needs = append(slices.Clone(op.Needs), NotPatches)
		}
	}
})
