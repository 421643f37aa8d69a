package qmath

import "qwb/kernels/elementary"

// Table is a function of 8-bit codes: Table[b] is the raw byte of the result for the raw byte b of the input. A signed code
// is indexed by its two's complement, so that the order is 0..127, -128..-1.
type Table [256]byte

// Look returns the code of the result for code q of the input; signed says whether the results are signed.
func (t *Table) Look(q int32, signed bool) int32 { return fromByte(t[byte(q)], signed) }

func fromByte(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

// tableOf fills a table from a function of codes.
func tableOf(x Grid, f func(q int32) int32) (t Table) {
	for b := range t {
		t[b] = byte(f(fromByte(byte(b), x.QMin < 0)))
	}
	return t
}

// TableQuantizer returns how table entries on grid y are quantized: as Quantizer does, but TFLite multiplies by the float32
// reciprocal of the scale here, although its QUANTIZE divides, and an Arithmetic rounds what it computes as the grid says.
func (p Profile) TableQuantizer(y Grid) Quantizer {
	q := p.Quantizer(y)
	if p.Own {
		q.Rounding = y.Rounding
	}
	if p.Family == TFLite && !p.Own {
		q.Reciprocal = 1 / y.Scale
	}
	return q
}

// Table returns the table of y = f(x) for 8-bit codes x and y: the code is dequantized, f computed and the result quantized
// by the TableQuantizer. NaN gives the zero point.
//
// f is the target's float32 function. Where a target's own approximation is not known (tanhf and expf of its C library), use
// Correct: an entry differs then only where the approximation crosses a rounding boundary.
func (p Profile) Table(x, y Grid, f func(float32) float32) Table {
	q := p.TableQuantizer(y)
	return tableOf(x, func(c int32) int32 { return q.At(f(x.Dequantize(c))) })
}

// Correct returns the float32 function that rounds f's float64 result.
func Correct(f func(float64) float64) func(float32) float32 {
	return func(x float32) float32 { return float32(f(float64(x))) }
}

// Sigmoid returns the logistic function as the target computes it in float32: ONNX Runtime's rational approximation, or
// correctly rounded.
func (p Profile) Sigmoid() func(float32) float32 {
	if p.Family == ORT {
		return mlasLogistic
	}
	return Correct(func(x float64) float64 { return 1 / (1 + elementary.Exp(-x)) })
}
