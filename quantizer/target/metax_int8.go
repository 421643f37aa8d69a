package target

import "qwb/quantizer/tqc"

// MetaxT and MetaxC are Metax's GPUs, which read Q/DQ: operators and grids of PPQ's two MetaxInt8Quantizers, with one scale per tensor and
// with one per channel of a weight. PPQ makes a MatMul and an Add of a Gemm first; here a Gemm stays one.
var MetaxT = derive(&PPLCuda, func(t *Target) {
	t.Name = "metax_int8_t"
	t.Doc = "Metax GPUs, Q/DQ form: asymmetric uint8 activations and weights with one scale per tensor, float bias"
	t.put(Op{Type: "MatMul", Role: Weighted}, Op{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight}},
		Op{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne}})
	t.Activation = eight(0, 255, tqc.PerTensor, tqc.ObserverRobust)
	t.Weight = eight(0, 255, tqc.PerTensor, tqc.ObserverMinMax)
	t.Bias = tqc.Config{}
	t.Export.SignedOnly, t.Export.ZeroPointZero = false, false
})

var MetaxC = derive(&PPLCuda, func(t *Target) {
	t.Name = "metax_int8_c"
	t.Doc = "Metax GPUs, Q/DQ form: symmetric int8 activations, per-channel int8 weights, int32 bias"
	t.put(Op{Type: "MatMul", Role: Weighted})
	t.Weight = eight(-127, 127, tqc.PerChannel, tqc.ObserverMinMax)
})
