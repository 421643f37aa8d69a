package target

// TRT10 is TensorRT 8 to 10, which take Q/DQ as trt_int8 and, without Q/DQ, a calibration cache or a range for each tensor. Networks are
// weakly typed there: the builder chooses among the precisions that it is allowed, so that float operators stay float32 in the file.
var TRT10 = derive(&TRTInt8, func(t *Target) {
	t.Name, t.Doc = "trt10_int8", "TensorRT 8 to 10: Q/DQ as trt_int8; also calibration caches and tensor ranges"
	t.Import = false
})
