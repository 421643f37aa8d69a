package target

import (
	"slices"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// TRTFP8 is TensorRT's explicit quantization in FP8 (e4m3, compute capability 8.9 and up): convolutions and matrix products, and the skip
// branch of a residual Add, with one scale per tensor; everything else is fp16. Transposed convolutions have no FP8 kernels.
// Q and DQ know e4m3 since opset 19.
var TRTFP8 = derive(&TRTInt8, func(t *Target) {
	t.Name, t.Doc = "trt_fp8", "TensorRT 10 and 11 in FP8: e4m3 per tensor, Q/DQ as trt_int8, float operators in fp16"
	t.Import, t.Island, t.Export.MinOpset, t.Export.MaxOpset = false, qmath.FP16, 19, 25
	t.Ops = slices.DeleteFunc(t.Ops, func(o Op) bool { return o.Type == "ConvTranspose" })
	for i := range t.Ops {
		t.Ops[i].Schemes = Schemes{}
	}
	e4m3 := schemesOf("e4m3-sym-tensor")
	t.Schemes = Schemes{Activation: e4m3, Weight: e4m3}
	t.Activation, t.Weight = under(e4m3[0], t.Activation), under(e4m3[0], t.Weight)
	t.Activation.Observer = tqc.ObserverMinMax
})
