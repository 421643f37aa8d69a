package target

import "qwb/quantizer/tqc"

// PPLCuda is OpenPPL on NVIDIA's GPUs: operators and grids of PPQ's PPLCUDAQuantizer. Add shares one scale among its inputs, as PPQ's
// alignment has it.
var PPLCuda = derive(&QNN, func(t *Target) {
	t.Name = "ppl_cuda_int8"
	t.Doc = "OpenPPL on CUDA, float ONNX with its JSON: symmetric int8 activations, per-channel int8 weights, int32 bias"
	t.keep("Conv", "Relu", "PRelu", "Clip", "Gemm", "Resize", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Mul",
		"Split", "Concat", "Transpose", "Slice", "Reshape", "Flatten", "ReduceMean")
	t.put(Op{Type: "Add", Role: Arithmetic, Align: AlignLarge}, Op{Type: "LeakyRelu", Role: Activation, Alone: true},
		Op{Type: "Sigmoid", Role: Activation, Alone: true})
	t.Activation = eight(-128, 127, tqc.PerTensor, tqc.ObserverRobust)
	t.Weight = eight(-128, 127, tqc.PerChannel, tqc.ObserverMinMax)
	t.Schemes = Schemes{}
	t.Profile = "trt"
	t.BorderCost = 64
	t.Export.SignedOnly, t.Export.ZeroPointZero = true, true
})

// PPLDsp and PPLDspTI are OpenPPL on DSPs: PPQ's PPL_DSP_Quantizer and PPL_DSP_TI_Quantizer.
var PPLDsp = derive(&SNPE, func(t *Target) {
	t.Name = "ppl_dsp_int8"
	t.Doc = "OpenPPL on DSPs, float ONNX with its ranges: asymmetric uint8 activations and weights, int32 bias"
	t.Ops = dropped(t.Ops, "MatMul", "Transpose", "Tanh")
})

var PPLDspTI = derive(&PPLDsp, func(t *Target) {
	t.Name = "ppl_dsp_ti_int8"
	t.Doc = "OpenPPL on TI's DSPs, float ONNX with its ranges: symmetric int8 activations, per-channel int8 weights, float bias"
	t.put(Op{Type: "Sigmoid", Role: Arithmetic}, Op{Type: "Softmax", Role: Arithmetic, Needs: []Condition{OneAxis}})
	for i := range t.Ops {
		if t.Ops[i].Role == Weighted { // a float bias may be anything
			t.Ops[i].Needs = without(t.Ops[i].Needs, IntegerBias)
		}
	}
	t.Activation = eight(-128, 127, tqc.PerTensor, tqc.ObserverRobust)
	t.Weight = eight(-128, 127, tqc.PerChannel, tqc.ObserverMinMax)
	t.Bias = tqc.Config{}
	t.Export.SignedOnly, t.Export.ZeroPointZero = true, true
})
