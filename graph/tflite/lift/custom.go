package lift

import (
	"encoding/binary"

	"qwb/graph/tflite"
)

// standard is an operator as TensorFlow Lite's own set has it, where a custom one computes the same: Convolution2DTransposeBias, of
// MediaPipe and run by XNNPACK, is TRANSPOSE_CONV of data, weights and bias. Its options are a struct of int32 (TfLiteTransposeConvParams):
// padding (1 SAME, 2 VALID), strides along width and height. Others, and options of another form, stay as they are.
func standard(op tflite.Operator) tflite.Operator {
	if op.Op != "CUSTOM" || op.Custom != "Convolution2DTransposeBias" || len(op.Inputs) != 3 || len(op.CustomOptions) < 12 {
		return op
	}
	var field [3]int
	for i := range field {
		field[i] = int(int32(binary.LittleEndian.Uint32(op.CustomOptions[4*i:])))
	}
	padding := field[0] - 1
	if padding != tflite.Same && padding != tflite.Valid {
		return op
	}
	x, w, bias := op.Inputs[0], op.Inputs[1], op.Inputs[2]
	op.Op, op.Custom, op.CustomOptions, op.OptionsType = "TRANSPOSE_CONV", "", nil, "TransposeConv"
	op.Options = tflite.Options{"padding": padding, "stride_w": field[1], "stride_h": field[2]}
	op.Inputs = []int{w, w, x, bias} // in front, the output's shape, which nobody reads
	return op
}
