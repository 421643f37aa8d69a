package target

import (
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// XInt8 is AMD's Ryzen AI NPU for convolutional networks, which takes power-of-two scales only, one for weights (Quark's preset XINT8;
// biases are int32 here, which Quark calls Int32Bias). FPGA is PPQ's target for Xilinx's FPGAs, whose biases have 30 bits.
var (
	XInt8 = pow2Tensor("xint8", "AMD Ryzen AI NPU, XINT8: symmetric int8 with power-of-two scales, one for weights, Q/DQ form")
	FPGA  = fpga()
)

// bias30 is the range of biases of 30 bits: where one would leave it, calibration raises the scale of weights.
var bias30 = qmath.Format{Bits: 32, QMin: -1 << 29, QMax: 1<<29 - 1}

func pow2Tensor(name, doc string) Target {
	t := Pow2
	t.Name, t.Doc = name, doc
	t.Weight.Policy = t.Weight.Policy&^tqc.PerChannel | tqc.PerTensor
	t.Schemes = Schemes{}
	return t
}

func fpga() Target {
	t := pow2Tensor("fpga_int8", "Xilinx FPGAs: symmetric int8 with power-of-two scales, one for weights, biases of 30 bits, Q/DQ form")
	t.Bias.Format = bias30
	t.Profile = t.Name
	t.Arithmetic = &qmath.Arithmetic{Operators: qmath.PowerOfTwo, Rounding: []qmath.Rounding{qmath.HalfEven}, Bias: 30}
	return t
}
