package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// TFLiteInt8 is TensorFlow Lite, TFLite Micro and what compiles their files (Vela, Edge TPU, vendors' NPUs): the int8 quantization
// specification, for networks that are calibrated here and written as .tflite. What has a row here has an integer kernel in TFLite's
// reference kernels whose arithmetic profile tflite2 has; ABS, SQRT and RSQRT have arithmetic of their own that no profile has, and stay
// float. So does PRELU, whose integer kernel takes 29 times as long as the float one between conversions (LiteRT 2.3, 1x64x64x32).
var TFLiteInt8 = Target{
	Name: "tflite_int8",
	Doc: "TensorFlow Lite, TFLite Micro and compilers of their files: asymmetric int8 activations, symmetric per-channel int8 weights, " +
		".tflite form",
	Ops: slices.Concat([]Op{
		// Hybrid kernels make codes of one image.
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias},
			Schemes: Schemes{Activation: schemesOf("int8-asym-tensor", "int8-asym-dynamic-tensor")}},
		{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias},
			Schemes: Schemes{Activation: schemesOf("int8-asym-tensor")}},
		// FULLY_CONNECTED with a scale per channel is younger than most runtimes and compilers in use.
		{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne, IntegerBias}, Schemes: denseWeights},
		{Type: "MatMul", Role: Weighted, Schemes: denseWeights},
		// UNIDIRECTIONAL_SEQUENCE_LSTM of int8 weights: of float data, quantizing rows of them and of the state, or of integers.
		{Type: "LSTM", Role: Weighted, Needs: []Condition{ConstantCells, PlainCells}, Asked: true, Schemes: Schemes{
			Weight: schemesOf("int8-sym-tensor"), Activation: schemesOf("int8-sym-dynamic-token", "int8-asym-tensor")}},

		{Type: "Add", Role: Arithmetic},
		// AVERAGE_POOL_2D has one grid, and so has CONCATENATION.
		{Type: "AveragePool", Role: Arithmetic, Align: AlignInput, Overlap: true, Needs: []Condition{SamePads, CountedFloor}},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput},
		{Type: "Elu", Role: Arithmetic, Needs: []Condition{UnitAlpha}},
		{Type: "Exp", Role: Arithmetic},
		{Type: "Gelu", Role: Arithmetic},
		{Type: "GlobalAveragePool", Role: Arithmetic}, // MEAN
		{Type: "HardSwish", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Log", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sigmoid", Role: Arithmetic, FixedScale: 1.0 / 256},
		{Type: "Softmax", Role: Arithmetic, FixedScale: 1.0 / 256, Needs: []Condition{OneAxis}},
		{Type: "Sub", Role: Arithmetic},
		{Type: "Tanh", Role: Arithmetic, FixedScale: 1.0 / 128, FixedZero: true},

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, moving(nil,
		Op{Type: "Tile", Role: Passive})),
	Activation: tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127},
		Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverRobust},
	Weight: TFLite.Weight,
	Bias:   TFLite.Bias,
	Schemes: Schemes{Weight: schemesOf("int8-sym-channel", "int8-sym-tensor"),
		Activation: schemesOf("int8-asym-tensor", "int8-asym-dynamic-tensor", "int8-sym-dynamic-token")},
	Placement:  Everywhere,
	Fusions:    []Fusion{{pattern.LayerNorm, true}, {pattern.RMSNorm, true}, {pattern.GeluFormula, true}}, // float as a whole
	Float:      FloatNative,
	Island:     qmath.FP32,
	Profile:    "tflite2",
	BorderCost: 1, // as TFLite's
	Export:     TFLite.Export,
}

var denseWeights = Schemes{Weight: schemesOf("int8-sym-tensor", "int8-sym-channel"),
	Activation: schemesOf("int8-asym-tensor", "int8-sym-dynamic-token")}

// TFLite16x8 is the same with activations of 16 bits: symmetric, and biases of 64 bits. SOFTMAX, LOGISTIC and TANH of int16 are tables of
// TFLite's own that no profile has, and its LEAKY_RELU of int16 is no table;
// the operators that TFLite has no int16 kernel of stay float too.
var TFLite16x8 = wideTFLite()

func wideTFLite() Target {
	t := TFLiteInt8
	t.Name = "tflite_16x8"
	t.Doc = "TensorFlow Lite with 16-bit activations: symmetric int16 activations, symmetric per-channel int8 weights, int64 biases, " +
		".tflite form"
	t.Activation.Policy = tqc.Symmetric | tqc.PerTensor | tqc.Linear
	t.Activation.Format = qmath.Format{Bits: 16, QMin: -32768, QMax: 32767}
	t.Schemes.Activation = schemesOf("int16-sym-tensor")
	t.Ops = slices.DeleteFunc(slices.Clone(t.Ops), func(o Op) bool {
		return slices.Contains([]string{"ConvTranspose", "DepthToSpace", "Elu", "Exp", "Gelu", "HardSwish", "LeakyRelu", "Log", "Resize",
			"Sigmoid", "Softmax", "SpaceToDepth", "Tanh", "Tile", "Upsample"}, o.Type)
	})
	for i := range t.Ops {
		switch own := &t.Ops[i].Schemes; t.Ops[i].Type {
		case "LSTM": // its integer kernel has data of 8 bits alone
			own.Activation = own.Activation[:1]
		default:
			own.Activation = nil
		}
	}
	return t
}
