package exec

// microsoftQuantEvals are ONNX Runtime's own QuantizeLinear and DequantizeLinear: those of ONNX, for more types and at any
// opset.
var microsoftQuantEvals = []evaluator{
	{"QuantizeLinear", buildQuantize},
	{"DequantizeLinear", buildDequantize},
}
