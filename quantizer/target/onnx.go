package target

import (
	"slices"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// ONNX is no engine: Q/DQ with the meaning that the ONNX operators give it, and no rule beyond. Imported files are plans for it
// that keep the rules of no platform.
var ONNX = Target{
	Name: "onnx",
	Doc:  "Q/DQ as the ONNX operators define it, of any integer type, without the rules of an engine",
	Ops: slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne}},
		{Type: "MatMul", Role: Weighted},

		{Type: "Add", Role: Arithmetic},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "HardSwish", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "PRelu", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sigmoid", Role: Arithmetic},
		{Type: "Softmax", Role: Arithmetic, Needs: []Condition{OneAxis}},
		{Type: "Sub", Role: Arithmetic},
		{Type: "Tanh", Role: Arithmetic},
		{Type: "Where", Role: Arithmetic},

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, moving([]string{"Upsample"},
		Op{Type: "Expand", Role: Passive}, Op{Type: "Tile", Role: Passive})),
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255},
		Observer: tqc.ObserverRobust},
	Weight: tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax},
	Bias: tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear,
		Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}},
	Placement:  Everywhere,
	Float:      FloatNative,
	Island:     qmath.FP32,
	Profile:    "onnx",
	BorderCost: 26, // as on ONNX Runtime, which computes such files
	Import:     true,
	Export:     Export{MinOpset: 13, Open: true},
}
