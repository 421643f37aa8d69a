package target

import (
	"slices"

	"qwb/quantizer/tqc"
)

// RKNN is Rockchip's NPU by rknn-toolkit2, whose compiler is closed: operators and grids of PPQ's RKNN_PerTensorQuantizer, with the weights
// of rknn-toolkit2's default (quantized_method channel) as the other choice.
var RKNN = derive(&QNN, func(t *Target) {
	t.Name = "rknn_int8"
	t.Doc = "Rockchip NPUs by rknn-toolkit2, float ONNX with its file of quantization: asymmetric uint8 activations and weights, int32 bias"
	t.keep(slices.Concat([]string{"Conv", "GlobalAveragePool", "AveragePool", "Relu", "Add", "Mul", "Clip", "Sigmoid", "MatMul", "Gemm",
		"Concat", "LeakyRelu"},
		[]string{"MaxPool", "GlobalMaxPool", "Reshape", "Flatten", "Identity", "Slice", "Pad", "Split", "Transpose", "Squeeze", "Unsqueeze"})...)
	t.Weight = eight(0, 255, tqc.PerTensor, tqc.ObserverMinMax)
	t.Schemes = Schemes{Weight: schemesOf("uint8-asym-tensor", "int8-sym-channel")}
})
