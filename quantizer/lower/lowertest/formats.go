package lowertest

import (
	"fmt"

	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Formats returns ONNX, the platform without rules of an engine, with weights of 2 to 8 bits and activations of int8, uint8, int16 and
// uint16: one target for each pair. Weights of an odd number of bits are unsigned with a zero point per channel. The name is that of the
// pair: int4/uint16.
func Formats() []target.Target {
	var list []target.Target
	for bits := 2; bits <= 8; bits++ {
		for _, activation := range []qmath.Format{qmath.IntegerFormat(8, false), qmath.IntegerFormat(8, true), qmath.IntegerFormat(16, false),
			qmath.IntegerFormat(16, true)} {
			tg := target.ONNX
			tg.Weight.Format = qmath.IntegerFormat(bits, bits%2 == 1)
			if bits%2 == 1 {
				tg.Weight.Policy = tqc.Asymmetric | tqc.PerChannel | tqc.Linear
			}
			tg.Activation.Format, tg.Activation.Observer = activation, tqc.ObserverMinMax
			if activation.Bits == 16 && activation.QMin < 0 {
				tg.Activation.Policy = tqc.Symmetric | tqc.PerTensor | tqc.Linear
			}
			tg.Name = fmt.Sprintf("%s/%s", tg.Weight.FormatName(), activation.FormatName())
			list = append(list, tg)
		}
	}
	return list
}
