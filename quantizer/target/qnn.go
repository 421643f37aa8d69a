package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// QNN is Qualcomm's HTP by QNN and QAIRT, which read a float model and encodings of its tensors. The operators are those that PPQ's
// quantizer for it lists, and those that QAIRT's table of HTP operators has in 8 and 16 bits beside them; ranges and observers as its
// documents on quantization have them. Div and Max, which PPQ lists too, have no integer program and stay float. HTP's arithmetic is not
// published: the profile is what AIMET simulates.
var QNN = Target{
	Name: "qnn",
	Doc:  "Qualcomm HTP by QNN (QAIRT), float ONNX with encodings: asymmetric uint8 activations, per-channel int8 weights, int32 bias",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted},

		{Type: "Add", Role: Arithmetic},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "HardSigmoid", Role: Arithmetic},
		{Type: "HardSwish", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "PRelu", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		// PPQ clamps their scale to 1/(2^bits - 1), for nothing that they compute is beyond 1.
		{Type: "Sigmoid", Role: Arithmetic, FixedScale: 1.0 / 256},
		{Type: "Softmax", Role: Arithmetic, FixedScale: 1.0 / 256, Needs: []Condition{OneAxis}},
		{Type: "Sub", Role: Arithmetic},
		{Type: "Tanh", Role: Arithmetic},

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, movers),
	Activation: eight(0, 255, tqc.PerTensor, tqc.ObserverRobust),
	Weight:     eight(-127, 127, tqc.PerChannel, tqc.ObserverMinMax),
	Bias:       ONNXRuntime.Bias,
	Schemes: Schemes{Activation: schemesOf("uint8-asym-tensor", "uint16-asym-tensor"),
		Weight: schemesOf("int8-sym-channel", "int8-sym-tensor", "uint8-asym-tensor", "int4-sym-channel")},
	Placement: Everywhere,
	Fusions:   []Fusion{{pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, true}},
	Float:     FloatNative,
	Island:    qmath.FP32,
	Profile:   "onnx",
	// Float16 on the same core is slower by a factor of 2 to 4; a conversion reads and writes an element once.
	BorderCost: 16,
	Export:     Export{MinOpset: 13, MaxOpset: 21, RankZero: true, PassiveScale: true},
}
