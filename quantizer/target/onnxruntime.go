package target

import (
	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// ONNXRuntime is the CPU provider of ONNX Runtime reading Q/DQ models. Only what its optimizer replaces by integer kernels
// is quantized (onnxruntime/core/optimizer/qdq_transformer lists the patterns); ConvTranspose, for one, is not. Every operator
// of an integer region has Q/DQ on both sides.
var ONNXRuntime = Target{
	Name: "onnxruntime",
	Doc:  "ONNX Runtime on CPUs, Q/DQ form: asymmetric uint8 activations, per-channel int8 weights, int32 bias",
	Ops: []Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted},

		{Type: "Add", Role: Arithmetic},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		// QLinearSoftmax works with floor(1/scale), QLinearSigmoid with a table: both want 1/256.
		{Type: "Sigmoid", Role: Arithmetic, FixedScale: 1.0 / 256},
		{Type: "Softmax", Role: Arithmetic, FixedScale: 1.0 / 256, Needs: []Condition{OneAxis}},
		{Type: "Where", Role: Arithmetic},

		// Removed in front of a Q whose own clipping covers them.
		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},

		// The Q/DQ around these are dropped if both have the same scale and zero point.
		{Type: "Expand", Role: Passive},
		{Type: "Flatten", Role: Passive},
		{Type: "Gather", Role: Passive},
		{Type: "GatherElements", Role: Passive},
		{Type: "MaxPool", Role: Passive, Needs: []Condition{OneOutput}}, // of opset 12; exports have 13 at least
		{Type: "ReduceMax", Role: Passive},
		{Type: "ReduceMin", Role: Passive},
		{Type: "Reshape", Role: Passive},
		{Type: "Resize", Role: Passive, Needs: []Condition{Copies}},
		{Type: "Slice", Role: Passive},
		{Type: "Split", Role: Passive},
		{Type: "Squeeze", Role: Passive},
		{Type: "Tile", Role: Passive},
		{Type: "Transpose", Role: Passive},
		{Type: "Unsqueeze", Role: Passive},
		{Type: "Upsample", Role: Passive, Needs: []Condition{Copies}}, // exported as Resize
	},
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255},
		Observer: tqc.ObserverMSE},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Bias: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}},
	Schemes: Schemes{
		Activation: []tqc.Scheme{{Bits: 8, Unsigned: true, Asymmetric: true}, {Bits: 8}, {Bits: 8, Unsigned: true},
			{Bits: 16, Unsigned: true, Asymmetric: true}, {Bits: 16}},
		Weight: []tqc.Scheme{{Bits: 8, Channel: true}, {Bits: 8}},
	},
	// VPMADDUBSW adds two u8*i8 products in a saturating int16: 7-bit weights keep it exact.
	ReducedWeight: [2]int32{-64, 64},
	Placement:     Everywhere,
	// Float kernels of their own; Swish and HardSwish are not among them: their parts run as QLinearSigmoid, QLinearMul, ...
	Fusions: []Fusion{{pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, true}},
	Float:   FloatNative,
	Island:  qmath.FP32,
	Profile: "ort",
	// One core with VNNI: quantizing takes 0.13 ns per element, and a multiply-accumulate 7.1 ps in float32, 2.2 ps in int8.
	BorderCost: 26,
	Import:     true,
	Export: Export{MinOpset: 13, MaxOpset: 21, RankZero: true, Int8Weights: true,
		QuantizedOutputs: true, OneType: true, PassiveScale: true},
}
