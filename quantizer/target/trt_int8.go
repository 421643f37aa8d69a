package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// trtMatrices are the weights of matrix products: beside those of convolutions int4 in blocks along the summed axis, which TensorRT
// dequantizes before it multiplies.
var trtMatrices = schemesOf("int8-sym-channel", "int8-sym-tensor", "e4m3-sym-tensor", "int4-sym-g64", "int4-sym-g128")

// TRTInt8 is TensorRT's explicit quantization. Quantizers stand where its builder fuses them: at the inputs of weighted
// operators, never behind them, and at the skip branch of a residual Add, so that Conv+Add+Relu becomes one int8 kernel.
var TRTInt8 = Target{
	Name: "trt_int8",
	Doc:  "TensorRT explicit quantization: symmetric int8, per-channel weights, float bias, Q/DQ on inputs of weighted operators",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight}},
		// Kernels disagree by version about the channel axis of a deconvolution's weights (NVIDIA/TensorRT issues 1694 and 2380).
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight},
			Schemes: Schemes{Weight: schemesOf("int8-sym-tensor")}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{ChannelBias}, Schemes: Schemes{Weight: trtMatrices}},
		{Type: "MatMul", Role: Weighted, Schemes: Schemes{Weight: trtMatrices}},

		{Type: "Add", Role: Arithmetic}, // residual only: see Residual

		{Type: "Clip", Role: Activation},
		{Type: "Elu", Role: Activation},
		{Type: "Gelu", Role: Activation},
		{Type: "HardSigmoid", Role: Activation},
		{Type: "HardSwish", Role: Activation},
		{Type: "LeakyRelu", Role: Activation},
		{Type: "Mish", Role: Activation},
		{Type: "PRelu", Role: Activation, Needs: []Condition{ChannelSlopes}},
		{Type: "Relu", Role: Activation, Alone: true}, // commutes with a symmetric quantizer
		{Type: "Selu", Role: Activation},
		{Type: "Sigmoid", Role: Activation},
		{Type: "Softplus", Role: Activation},
		{Type: "Tanh", Role: Activation},
	},
		// The builder moves Q and DQ through these.
		moving([]string{"Gather"},
			Op{Type: "Concat", Role: Passive}, Op{Type: "Dropout", Role: Passive, Needs: []Condition{OneOutput}}, Op{Type: "Expand", Role: Passive},
			Op{Type: "Tile", Role: Passive})),
	// Both grids are [-128,127] (developer guide, quantized types; NVIDIA/TensorRT issue 1796) with scale absmax/127: -128 occurs
	// only where a value beyond the range clips.
	Activation: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127},
		Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Schemes: Schemes{Activation: schemesOf("int8-sym-tensor", "e4m3-sym-tensor"),
		Weight: schemesOf("int8-sym-channel", "int8-sym-tensor", "e4m3-sym-tensor")},
	Placement: WeightedInputs,
	Fusions: []Fusion{{pattern.Attention, true}, {pattern.LayerNorm, true}, {pattern.RMSNorm, true},
		{pattern.Gelu, false}, {pattern.HardSwish, false}, {pattern.Mish, false}, {pattern.Swish, false}},
	Float:   FloatNative,
	Island:  qmath.FP32,
	Profile: "trt",
	// A reformat reads and writes 5 bytes per element at some 1.5 TB/s (3.3 ps); int8 tensor cores at half of their peak
	// save about 0.05 ps per multiply-accumulate against TF32 (A100: 624 and 156 T operations per second).
	BorderCost: 64,
	Import:     true,
	// Opset 21 is for blocks of int4 alone; TensorRT 10.0 itself reads up to 20, so that plans with them want a newer one.
	Export: Export{MinOpset: 13, MaxOpset: 21, FloatWeights: true, RankZero: true, SignedOnly: true, ZeroPointZero: true,
		ChannelMultiple: 16},
}
