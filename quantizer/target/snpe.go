package target

import "qwb/quantizer/tqc"

// SNPE is Qualcomm's older runtime on its DSP: one scale for a whole weight, 8-bit and asymmetric, as PPQ's quantizer for it has them
// (PPL_DSP_Quantizer, SNPE_INT8).
var SNPE = derive(&QNN, func(t *Target) {
	t.Name = "snpe"
	t.Doc = "Qualcomm DSP by SNPE, float ONNX with a range of every tensor: asymmetric uint8 activations and weights, int32 bias"
	t.Weight = eight(0, 255, tqc.PerTensor, tqc.ObserverMinMax)
	t.Schemes = Schemes{}
})
