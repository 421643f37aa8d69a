package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// NCNNInt8 is ncnn's int8 inference (its tools ncnn2table and ncnn2int8, src/layer/convolution.cpp, convolutiondepthwise.cpp,
// innerproduct.cpp). A layer quantizes its input, adds bias and activation in float, and leaves float, or the integers of the next
// convolution where that alone reads it; all else is float. What moves or selects elements commutes with the quantizer behind it: all
// integers are symmetric. Weights of 3x3 convolutions have 6 bits: Winograd's F(4,3) adds them up in 16. Groups have one scale of weights.
var NCNNInt8 = Target{
	Name: "ncnn_int8",
	Doc:  "ncnn's int8 layers: symmetric int8 inputs and per-channel weights (6 bits where Winograd computes), float bias and epilogue",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias, Planar, GroupScale}, Reduced: []Condition{WinogradShape}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{ConstantMatrix, AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted, Needs: []Condition{ConstantMatrix}},

		// The activations that a layer computes before it rounds (src/layer/fused_activation.h).
		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "HardSwish", Role: Activation},
		{Type: "LeakyRelu", Role: Activation},
		{Type: "Mish", Role: Activation},
		{Type: "Relu", Role: Activation, Alone: true},
		{Type: "Sigmoid", Role: Activation},
	}, moving([]string{"Gather", "SpaceToDepth"},
		Op{Type: "Concat", Role: Passive}, Op{Type: "Dropout", Role: Passive, Needs: []Condition{OneOutput}})),
	Activation: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverMinMax},
	Schemes:       Schemes{Weight: schemesOf("int8-sym-channel", "int8-sym-tensor")},
	ReducedWeight: [2]int32{-31, 31},
	Placement:     WeightedInputs,
	Fusions: []Fusion{{pattern.Attention, true}, {pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, true},
		{pattern.HardSwish, false},
		{pattern.Mish, false}},
	Float:   FloatNative,
	Island:  qmath.FP32,
	Profile: "ncnn",
	// As on ONNX Runtime: one pass over the elements against 8-bit products, on the same processors.
	BorderCost: 26,
	Export:     Export{MinOpset: 13, MaxOpset: 21, RankZero: true, SignedOnly: true, ZeroPointZero: true},
}
