package target

import (
	"slices"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// TFLite is TensorFlow Lite's 8-bit quantization (its "Quantization specification") as Q/DQ: every tensor between operators has
// a scale, weights are symmetric per output channel, pooling and data movement keep the scale. It is what converted TFLite models
// are imported as.
var TFLite = Target{
	Name: "tflite",
	Doc:  "TensorFlow Lite's integers as Q/DQ: asymmetric int8 activations, symmetric per-channel int8 weights, int32 bias",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted},

		{Type: "Add", Role: Arithmetic},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "Elu", Role: Arithmetic},
		{Type: "Exp", Role: Arithmetic},
		{Type: "Gelu", Role: Arithmetic},
		{Type: "GlobalAveragePool", Role: Arithmetic}, // an AVERAGE_POOL_2D, or a MEAN, whose output has a scale of its own
		{Type: "HardSwish", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Log", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "PRelu", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sigmoid", Role: Arithmetic, FixedScale: 1.0 / 256},
		{Type: "Softmax", Role: Arithmetic, FixedScale: 1.0 / 256, Needs: []Condition{OneAxis}},
		{Type: "Sub", Role: Arithmetic},
		{Type: "Tanh", Role: Arithmetic}, // its output has scale 1/128 and zero point 0

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, moving([]string{"GlobalMaxPool", "Identity", "Upsample"},
		Op{Type: "Tile", Role: Passive})),
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Bias: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}},
	// The 16x8 scheme: int16 activations are symmetric.
	Schemes:   Schemes{Activation: schemesOf("int8-asym-tensor", "int16-sym-tensor")},
	Placement: Everywhere,
	Float:     FloatNative,
	Island:    qmath.FP32,
	Profile:   "tflite2",
	// A microcontroller has no float unit to speak of: integers pay wherever they can be computed.
	BorderCost: 1,
	Import:     true,
	Export: Export{MinOpset: 13, MaxOpset: 21, RankZero: true, SignedOnly: true, Int8Weights: true,
		QuantizedOutputs: true, OneType: true, PassiveScale: true},
}
