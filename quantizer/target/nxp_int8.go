package target

import (
	"qwb/kernels/qmath"
)

// NXP is PPQ's target for NXP's accelerators: scales are powers of two, one per output channel for weights, biases have 30 bits. Codes that
// are computed are rounded half up, those of inputs and of what comes back from float half down (ppq/quantization/quantizer/NXPQuantizer.py
// and NxpInputRoundingRefinePass). The file has one range for each tensor,
// so that tensors that an operator aligns are aligned for all who read them.
//
// The rows are PPQ's, without Max and Div, which no integer program computes, and with those that only rename elements: PPQ leaves them
// float and gives their results ranges of their own. Resize is in them where it is what PPQ's pass makes of every Resize: nearest,
// half_pixel.
var NXP = derive(&Pow2, func(t *Target) {
	t.Name, t.Doc = "nxp_int8", "NXP, as PPQ quantizes for it: symmetric int8, power-of-two scales, half-up rounding, ONNX with ranges"
	t.keep("Conv", "Gemm", "Relu", "Clip", "Pad", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Mul", "Slice",
		"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
	t.put(Op{Type: "Resize", Role: Passive, Needs: []Condition{Copies, HalfPixel}},
		Op{Type: "Add", Role: Arithmetic, Align: AlignLarge, Overlap: true}, Op{Type: "Sub", Role: Arithmetic, Align: AlignLarge, Overlap: true},
		Op{Type: "Concat", Role: Arithmetic, Align: AlignOutput, Overlap: true},
		Op{Type: "LeakyRelu", Role: Arithmetic}, Op{Type: "PRelu", Role: Arithmetic}, Op{Type: "Sigmoid", Role: Arithmetic})
	t.Activation.Rounding, t.Weight.Rounding = qmath.HalfUp, qmath.HalfAwayFromZero
	t.Schemes = Schemes{Weight: schemesOf("int8-sym-channel-pow2", "int8-sym-tensor-pow2")}
	t.Bias.Format = bias30
	t.Profile = t.Name
	t.Arithmetic = &qmath.Arithmetic{Operators: qmath.PowerOfTwo, Rounding: []qmath.Rounding{qmath.HalfUp}, Quantize: qmath.HalfDown, Bias: 30}
	t.Format = "nxp"
})
