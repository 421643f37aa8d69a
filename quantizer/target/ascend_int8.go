package target

import "qwb/quantizer/tqc"

// Ascend is Huawei's NPU, which reads a float model and a record of the scales of data and weights of each weighted operator: operators and
// grids of PPQ's AscendQuantizer. Weights of Gemm have one scale, results are float, and so is the bias.
var Ascend = derive(&QNN, func(t *Target) {
	t.Name = "ascend_int8"
	t.Doc = "Ascend NPUs by AMCT's records, float ONNX: asymmetric 8-bit inputs of weighted operators, per-channel int8 weights, float bias"
	t.keep("AveragePool", "Clip", "Relu")
	one := schemesOf("int8-sym-tensor")
	t.put(Op{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight}},
		Op{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight}},
		Op{Type: "Gemm", Role: Weighted, Needs: []Condition{ConstantWeight, AlphaOne, BetaOne}, Schemes: Schemes{Weight: one}})
	t.Weight = eight(-128, 127, tqc.PerChannel, tqc.ObserverMinMax)
	t.Bias = tqc.Config{}
	t.Schemes = Schemes{}
	t.Placement = AllInputs
	t.Export.PassiveScale = false
})
