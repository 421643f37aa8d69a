package target

// Tengine is Tengine-Lite's uint8 form: operators and grids of PPQ's TengineQuantizer. It has no scales per channel.
var Tengine = derive(&SNPE, func(t *Target) {
	t.Name = "tengine_int8"
	t.Doc = "Tengine, float ONNX with a list of scales: asymmetric uint8 activations and weights, int32 bias"
	t.keep("Conv", "GlobalAveragePool", "AveragePool", "Relu", "Add", "Mul", "Clip", "Sigmoid", "MatMul", "Gemm", "Concat",
		"LeakyRelu", "Softmax", "MaxPool", "GlobalMaxPool", "Reshape", "Flatten", "Identity", "Transpose", "Squeeze", "Unsqueeze")
})
