package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// ortWeights are the weights that every operator of ONNX Runtime 1.32 was found to compute with as ONNX defines them, between Q/DQ in
// float where it has no integer kernel. MatMul with int8 weights in groups is not among them: its fusion fails when it runs.
var ortWeights = schemesOf("int8-sym-channel", "int8-sym-tensor", "int4-sym-channel", "int4-sym-tensor", "int4-sym-g16", "int4-sym-g32",
	"int4-sym-g64", "int4-sym-g128", "uint4-asym-channel", "uint4-asym-g32", "uint4-asym-g128", "int16-sym-channel", "int16-sym-tensor",
	"e4m3-sym-channel", "e4m3-sym-tensor", "e5m2-sym-channel", "e5m2-sym-tensor",
	"uint8-sym-channel", "uint8-asym-tensor", "nf4-sym-g32", "nf4-sym-g64")

// ONNXRuntime is the CPU provider of ONNX Runtime reading Q/DQ models. Only what its optimizer replaces by integer kernels
// is quantized (onnxruntime/core/optimizer/qdq_transformer lists the patterns); ConvTranspose, for one, is not. Every operator
// of an integer region has Q/DQ on both sides.
var ONNXRuntime = Target{
	Name: "onnxruntime",
	Doc:  "ONNX Runtime on CPUs, Q/DQ form: asymmetric uint8 activations, per-channel int8 weights, int32 bias",
	Ops: slices.Concat([]Op{
		// Between two convolutions on integers its layout pass turns a cubic Resize into a form that its kernel cannot shrink in.
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias, NotShrunk}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}, FloatEnd: true}, // QGemm writes either
		{Type: "MatMul", Role: Weighted, UnsignedFirst: true, FloatEnd: true, Schemes: Schemes{Weight: ortWeights}},
		// DynamicQuantizeLSTM, which quantizes the state as well; there is no such kernel of GRU and RNN.
		{Type: "LSTM", Role: Weighted, Needs: []Condition{ConstantCells}, Asked: true, Schemes: Schemes{
			Weight:     schemesOf("int8-sym-channel", "int8-sym-tensor", "uint8-sym-channel", "uint8-asym-tensor"),
			Activation: schemesOf("uint8-asym-dynamic-tensor")}},

		{Type: "Add", Role: Arithmetic, FloatNorm: true},
		{Type: "AveragePool", Role: Arithmetic, Needs: []Condition{CountedFloor}},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput, FloatEnd: true},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		// QLinearSoftmax works with floor(1/scale), QLinearSigmoid with a table: both want 1/256. Of 512 equal probabilities that leaves 0 or
		// twice as much, so that Softmax has a finer whole number where they are small. 148 for each element overflow the kernel's float32.
		{Type: "Sigmoid", Role: Arithmetic, FixedScale: 1.0 / 256, FloatEnd: true},
		{Type: "Softmax", Role: Arithmetic, FixedScale: 1.0 / 256, Finer: 128, Needs: []Condition{OneAxis, SeveralSummed}, FloatEnd: true},
		{Type: "Where", Role: Arithmetic},

		// Removed in front of a Q whose own clipping covers them.
		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	},
		// The Q/DQ around these are dropped if both have the same scale and zero point. MaxPool is that of opset 12; exports have 13 at least.
		moving([]string{"DepthToSpace", "GlobalMaxPool", "Identity", "Pad", "SpaceToDepth"},
			Op{Type: "Expand", Role: Passive}, Op{Type: "GatherElements", Role: Passive}, Op{Type: "ReduceMax", Role: Passive},
			Op{Type: "ReduceMin", Role: Passive}, Op{Type: "Tile", Role: Passive})),
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255},
		Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Bias: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}},
	Schemes: Schemes{
		Activation: schemesOf("uint8-asym-tensor", "int8-sym-tensor", "uint8-sym-tensor", "uint16-asym-tensor", "int16-sym-tensor",
			"e4m3-sym-tensor", "e5m2-sym-tensor", "uint8-asym-dynamic-tensor", "int8-sym-dynamic-tensor", "int8-sym-dynamic-token",
			"int8-asym-tensor"),
		Weight: append(slices.Clone(ortWeights), schemesOf("int8-sym-g32", "int8-sym-g64", "int8-sym-g128")...),
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
		QuantizedOutputs: true, OneType: true, PassiveScale: true, RoundsPools: true, SlowDepthwise: true, EightBits: true},
}
