package grad

import "qwb/graph"

// constants are constant almost everywhere, or make no number of a number.
var constants = func() map[string]rule {
	m := map[string]rule{}
	for _, op := range []string{"Floor", "Ceil", "Sign", "Hardmax", "ArgMax", "ArgMin", "Shape", "Size", "ConstantOfShape", "EyeLike",
		"NonZero", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf", "BitShift",
		"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "NonMaxSuppression", "Bernoulli", "RandomNormal", "RandomUniform",
		"RandomNormalLike", "RandomUniformLike", "Constant", "HannWindow", "HammingWindow", "BlackmanWindow"} {
		m[op] = func(t *tape, _ []graph.ValueID) []graph.ValueID { return t.only(0, graph.NoValue) }
	}
	return m
}()

// without says of every other operator why it has no rule.
var without = func() map[string]string {
	m := map[string]string{}
	for why, list := range map[string][]string{
		"it computes with codes: who learns through a quantizer has a gradient of his own": {"QuantizeLinear", "DequantizeLinear",
			"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "com.microsoft::QuantizeLinear",
			"com.microsoft::DequantizeLinear", "com.microsoft::QGemm", "com.microsoft::QLinearAdd", "com.microsoft::QLinearMul",
			"com.microsoft::QLinearAveragePool", "com.microsoft::QLinearGlobalAveragePool", "com.microsoft::QLinearConcat",
			"com.microsoft::QLinearSoftmax", "com.microsoft::QLinearSigmoid", "com.microsoft::QLinearLeakyRelu", "com.microsoft::QLinearWhere",
			"com.microsoft::DynamicQuantizeLSTM", "com.microsoft::DynamicQuantizeMatMul", "com.microsoft::MatMulIntegerToFloat",
			"com.microsoft::MatMulNBits", "qwb::HybridLSTM", "qwb::IntegerLSTM"},
		"ONNX Runtime's optimizer made it of operators that have one": {"com.microsoft::FusedConv", "com.microsoft::FusedGemm",
			"com.microsoft::FusedMatMul", "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization",
			"com.microsoft::EmbedLayerNormalization", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention",
			"com.microsoft::GroupQueryAttention", "com.microsoft::RotaryEmbedding"},
		"it is control flow, or a loop over time": {"If", "Loop", "Scan", "LSTM", "GRU", "RNN"},
		"what it reads where, or how much, depends on data": {"MaxUnpool", "MaxRoiPool", "RoiAlign", "GridSample", "AffineGrid", "DeformConv",
			"Compress", "Unique", "TensorScatter", "OneHot", "Range"},
		"no block with weights has it":             {"DFT", "STFT", "MelWeightMatrix", "Det", "Col2Im", "CumProd", "BitCast"},
		"opset 11, the least, has another instead": {"Upsample", "Scatter"},
	} {
		for _, op := range list {
			m[op] = why
		}
	}
	return m
}()
