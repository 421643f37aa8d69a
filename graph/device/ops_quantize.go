package device

import (
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

var quantizeEmitters = map[string]emitter{"QuantizeLinear": emitQuantize, "DequantizeLinear": emitDequantize}

// codes are the types of codes and their limits.
var codes = map[tensor.DType]struct {
	element cuda.Element
	lo, hi  int32
}{
	tensor.Int8: {cuda.Int8, -128, 127}, tensor.Uint8: {cuda.Uint8, 0, 255}, tensor.Int16: {cuda.Int16, -32768, 32767},
	tensor.Uint16: {cuda.Uint16, 0, 65535},
}

// grid returns scale and zero point, inputs 1 and 2, if there is one of each and they are known.
func (e *emission) grid() (qmath.Grid, error) {
	var g qmath.Grid
	scale := e.known(1)
	if scale == nil || scale.DType != tensor.Float32 || scale.Len() != 1 || len(scale.Shape) > 1 {
		return g, onHost("scales other than one float32 that is known")
	}
	g.Scale = scale.F32()[0]
	if !qmath.Representable(g.Scale) {
		return g, onHost("a scale that is no positive number")
	}
	if !e.has(2) {
		return g, nil
	}
	zero := e.known(2)
	if zero == nil || zero.Len() != 1 {
		return g, onHost("a zero point that depends on data")
	}
	switch z := zero.Data.(type) {
	case []int8:
		g.ZeroPoint = int32(z[0])
	case []uint8:
		g.ZeroPoint = int32(z[0])
	case []int16:
		g.ZeroPoint = int32(z[0])
	case []uint16:
		g.ZeroPoint = int32(z[0])
	default:
		return g, onHost("a zero point of type " + zero.DType.String())
	}
	return g, nil
}

func emitQuantize(e *emission) error {
	c, ok := codes[e.out[0].dtype]
	if !ok || e.dtype(0) != tensor.Float32 || e.n.AttrInt("precision", 0) != 0 && tensor.DType(e.n.AttrInt("precision", 0)) != tensor.Float32 {
		return onHost("from " + e.dtype(0).String() + " to " + e.out[0].dtype.String())
	}
	g, err := e.grid()
	if err != nil {
		return err
	}
	g.QMin, g.QMax = c.lo, c.hi
	q, err := cuda.QuantizerOf(qmath.Quantizer{Grid: g})
	if err != nil {
		return onHost(err.Error())
	}
	src, n := e.raw(0), tensor.Count(e.shape(0))
	dst := e.make(0, e.layout(0))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.QuantizeCodes(s, m.at(dst), m.at(src), c.element, n, q, cuda.Buffer{})
	}, dst, src)
	return nil
}

func emitDequantize(e *emission) error {
	c, ok := codes[e.dtype(0)]
	if !ok || e.out[0].dtype != tensor.Float32 {
		return onHost("from " + e.dtype(0).String() + " to " + e.out[0].dtype.String())
	}
	g, err := e.grid()
	if err != nil {
		return err
	}
	src, n := e.raw(0), tensor.Count(e.shape(0))
	dst := e.make(0, e.layout(0))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.DequantizeCodes(s, m.at(dst), m.at(src), c.element, n, g.ZeroPoint, g.Scale)
	}, dst, src)
	return nil
}
