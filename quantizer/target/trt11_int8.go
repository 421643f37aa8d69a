package target

import "qwb/kernels/qmath"

// TRT11 is TensorRT 11. Its networks are strongly typed: an operator computes in the type that its tensors have in the file, and there are
// no caches and no precision flags any more (developer guide of 11.4, migration). So float operators are written in fp16 unless they would
// overflow. It reads opsets 9 to 25 (ONNX opset guide of 11.x).
var TRT11 = derive(&TRTInt8, func(t *Target) {
	t.Name, t.Doc = "trt11_int8", "TensorRT 11, strongly typed: Q/DQ as trt_int8, float operators in fp16"
	t.Import, t.Island, t.Export.MaxOpset = false, qmath.FP16, 25
})
