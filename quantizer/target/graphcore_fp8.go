package target

import (
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Graphcore is Graphcore's IPUs with 8-bit floats, Q/DQ since opset 19: operators and formats of PPQ's GraphCoreQuantizer. Scales are
// powers of two, all that IPUs scale an FP8 tensor by.
var Graphcore = derive(&PPLCuda, func(t *Target) {
	t.Name = "graphcore_fp8"
	t.Doc = "Graphcore IPUs, Q/DQ form: e4m3 activations and per-channel e4m3 weights with scales that are powers of two, float bias"
	t.put(Op{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight}},
		Op{Type: "ConvTranspose", Role: Weighted, Needs: []Condition{ConstantWeight}},
		Op{Type: "Gemm", Role: Weighted, Needs: []Condition{AlphaOne, BetaOne}}, Op{Type: "MatMul", Role: Weighted},
		Op{Type: "Add", Role: Arithmetic},
		Op{Type: "HardSwish", Role: Activation}, Op{Type: "Mish", Role: Activation})
	e4m3 := func(grain tqc.Policy, observer tqc.Observer) tqc.Config {
		return tqc.Config{Policy: tqc.Symmetric | grain | tqc.Floating | tqc.PowerOf2, Format: qmath.FormatOf(qmath.FloatE4M3),
			Observer: observer}
	}
	t.Activation, t.Weight, t.Bias = e4m3(tqc.PerTensor, tqc.ObserverMinMax), e4m3(tqc.PerChannel, tqc.ObserverMinMax), tqc.Config{}
	t.Profile = "onnx"
	t.Export = Export{MinOpset: 19, MaxOpset: 21, RankZero: true, PassiveScale: true}
})
