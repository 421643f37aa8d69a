package lower

import (
	"fmt"
	"strconv"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Encoding is the meaning of a tensor's integers: real = (q - ZeroPoint) * Scale, with q in [QMin, QMax]. Encodings are equal if
// their integers mean the same.
type Encoding struct {
	Scale      float32
	ZeroPoint  int32
	QMin, QMax int32
	Rounding   qmath.Rounding // of real numbers that are brought to this grid
}

// encodingOf returns the encoding of a per-tensor grid.
func encodingOf(c *tqc.Config, p *tqc.Params) (Encoding, error) {
	if !c.Policy.Has(tqc.PerTensor) {
		return Encoding{}, fmt.Errorf("activations with %s scales have no integer form", c.Policy)
	}
	if len(p.Scale) != 1 {
		return Encoding{}, fmt.Errorf("%d scales for one tensor", len(p.Scale))
	}
	e := Encoding{Scale: p.Scale[0], ZeroPoint: p.ZeroPoint[0], QMin: c.QMin, QMax: c.QMax, Rounding: c.Rounding}
	if e.DType() == tensor.Undefined || e.DType() == tensor.Int32 {
		return Encoding{}, fmt.Errorf("integers from %d to %d are wider than 16 bits", c.QMin, c.QMax)
	}
	return e, nil
}

// Grid returns the grid of e.
func (e Encoding) Grid() qmath.Grid {
	return qmath.Grid{Scale: e.Scale, ZeroPoint: e.ZeroPoint, QMin: e.QMin, QMax: e.QMax, Rounding: e.Rounding}
}

// DType is the narrowest of int8, uint8, int16, uint16 and int32 that holds the integers.
func (e Encoding) DType() tensor.DType {
	switch {
	case e.QMin >= -1<<7 && e.QMax < 1<<7 && e.QMin < 0:
		return tensor.Int8
	case e.QMin >= 0 && e.QMax < 1<<8:
		return tensor.Uint8
	case e.QMin >= -1<<15 && e.QMax < 1<<15 && e.QMin < 0:
		return tensor.Int16
	case e.QMin >= 0 && e.QMax < 1<<16:
		return tensor.Uint16
	}
	return tensor.Int32
}

// String formats e as 0.0125(q-128) in 0..255, with the scale exact.
func (e Encoding) String() string {
	s := strconv.FormatFloat(float64(e.Scale), 'g', -1, 32)
	switch {
	case e.ZeroPoint > 0:
		s += fmt.Sprintf("(q-%d)", e.ZeroPoint)
	case e.ZeroPoint < 0:
		s += fmt.Sprintf("(q+%d)", -e.ZeroPoint)
	default:
		s += "q"
	}
	s += fmt.Sprintf(" in %d..%d", e.QMin, e.QMax)
	if e.Rounding != qmath.HalfEven {
		s += " " + e.Rounding.String()
	}
	return s
}
