package target

import (
	"slices"

	"qwb/graph/pattern"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// ESP-DL runs integers on Espressif's chips: all scales powers of two, all zero points 0. The chips differ in how they round, in the bits
// of a bias and in whether weights may have a scale per channel (ESP32-P4; from ESP-DL 3.3.1 on), so that a file for one is wrong on
// another: esp_ppq/quantization/quantizer/EspdlQuantizer.py of ESP-PPQ 1.3.12. Functions of one number are tables: of 256 entries, and of
// 16-bit codes of an entry for every 32 codes, read at the nearest (executor/op/torch/espdl_lut.py).
var (
	ESPDLInt8    = espdl("espdl_int8", "ESP32-P4, int8", 8, 32, qmath.HalfEven, true)
	ESPDLInt8S3  = espdl("espdl_int8_s3", "ESP32-S3, int8", 8, 20, qmath.HalfUp, false)
	ESPDLInt8C   = espdl("espdl_int8_c", "ESP32 and other chips without vectors, int8", 8, 32, qmath.HalfUp, false)
	ESPDLInt16   = espdl("espdl_int16", "ESP32-P4, int16", 16, 40, qmath.HalfEven, true)
	ESPDLInt16S3 = espdl("espdl_int16_s3", "ESP32-S3, int16", 16, 40, qmath.HalfUp, false)
	ESPDLInt16C  = espdl("espdl_int16_c", "ESP32 and other chips without vectors, int16", 16, 64, qmath.HalfUp, false)
)

// espdlStep is the distance of the entries of ESP-PPQ's tables of 16-bit codes (setting.lut_optimization_setting.step).
const espdlStep = 32

func espdl(name, doc string, bits, bias int, r qmath.Rounding, channel bool) Target {
	t := Pow2
	t.Name, t.Doc = name, "ESP-DL on the "+doc+": symmetric, power-of-two scales, .espdl"
	t.Ops = slices.Concat([]Op{
		{Type: "Conv", Role: Weighted, Needs: []Condition{ConstantWeight, IntegerBias}},
		{Type: "Gemm", Role: Weighted, Needs: []Condition{ConstantWeight, AlphaOne, BetaOne, IntegerBias}},
		{Type: "MatMul", Role: Weighted},

		{Type: "Add", Role: Arithmetic},
		{Type: "AveragePool", Role: Arithmetic},
		{Type: "Concat", Role: Arithmetic, Align: AlignOutput, Overlap: true},
		{Type: "GlobalAveragePool", Role: Arithmetic},
		{Type: "Mul", Role: Arithmetic},
		{Type: "ReduceMean", Role: Arithmetic},
		{Type: "Sub", Role: Arithmetic},

		// Tables.
		{Type: "Elu", Role: Arithmetic},
		{Type: "Exp", Role: Arithmetic},
		{Type: "Gelu", Role: Arithmetic},
		{Type: "HardSigmoid", Role: Arithmetic},
		{Type: "HardSwish", Role: Arithmetic},
		{Type: "LeakyRelu", Role: Arithmetic},
		{Type: "Sigmoid", Role: Arithmetic},
		{Type: "Swish", Role: Arithmetic},
		{Type: "Tanh", Role: Arithmetic},

		{Type: "Clip", Role: Activation, Alone: true},
		{Type: "Relu", Role: Activation, Alone: true},
	}, movers, []Op{{Type: "ReduceMax", Role: Passive}, {Type: "ReduceMin", Role: Passive}})
	most := int32(1)<<(bits-1) - 1
	t.Activation.Format, t.Activation.Rounding = qmath.Format{Bits: bits, QMin: -most - 1, QMax: most}, r
	t.Weight.Format = t.Activation.Format
	if !channel {
		t.Weight.Policy = t.Weight.Policy&^tqc.PerChannel | tqc.PerTensor
	}
	t.Weight.Rounding = r
	t.Schemes = Schemes{}
	t.Profile = name
	t.Arithmetic = &qmath.Arithmetic{Operators: qmath.PowerOfTwo, Rounding: []qmath.Rounding{r}, Quantize: r, Bias: bias}
	if bits == 16 {
		t.Arithmetic.Step, t.Arithmetic.Nearest = espdlStep, true
	}
	t.Format = "espdl"
	t.Float = FloatNative
	t.Fusions = []Fusion{{pattern.Attention, true}, {pattern.LayerNorm, true}, {pattern.RMSNorm, true}}
	return t
}
