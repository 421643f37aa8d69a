// Package onnxqdq writes a quantized graph as ONNX with QuantizeLinear and DequantizeLinear, as TensorRT and ONNX Runtime read
// it, and checks the result against the rules of the target.
//
// Build transcribes: there is a Q and a DQ exactly where a slot of the tqc.Set quantizes, so that the file computes what the
// simulation computed. What differs between targets is data in target.Export. Check is the doctor: the list Rules,
// applied to what was read back from the written bytes.
//
// Unstable: it may change without notice.
package onnxqdq
