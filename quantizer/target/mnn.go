package target

import (
	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// MNNInt8 is what MNNConvert makes integers of by a file of compression parameters (tools/converter/source/common/FullQuantAndCoding.cpp):
// convolutions, with the integers of their inputs and outputs. All else reads floats. Bias and epilogue are float there
// (source/backend/cpu/compute/Int8FunctionsOpt.cpp), and one rounding half away from zero.
var MNNInt8 = Target{
	Name: "mnn_int8",
	Doc:  "MNN's compression parameters: symmetric int8 inputs and outputs of convolutions, per-channel weights, float bias and epilogue",
	Ops: []Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias, Planar, GroupScale}},

		{Type: "Clip", Role: Activation},
		{Type: "Relu", Role: Activation},
	},
	Activation: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverMinMax},
	Placement: Everywhere,
	Fusions:   []Fusion{{pattern.Attention, true}, {pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.Gelu, true}},
	Float:     FloatNative,
	Island:    qmath.FP32,
	Profile:   "mnn",
	// As on ONNX Runtime: one pass over the elements against 8-bit products, on the same processors.
	BorderCost: 26,
	Export:     Export{MinOpset: 13, MaxOpset: 21, RankZero: true, SignedOnly: true, ZeroPointZero: true},
}
