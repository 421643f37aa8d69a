package onnxqdq

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// dtypeOf is the ONNX type that holds the integers of a config.
func dtypeOf(c *tqc.Config) (tensor.DType, error) {
	signed := map[int]tensor.DType{8: tensor.Int8, 16: tensor.Int16, 32: tensor.Int32}
	unsigned := map[int]tensor.DType{8: tensor.Uint8, 16: tensor.Uint16}
	types := unsigned
	if c.Signed() {
		types = signed
	}
	if !c.Policy.Has(tqc.Linear) || c.Policy.Has(tqc.Dynamic) {
		return 0, fmt.Errorf("policy %q has no Q/DQ form", c.Policy)
	}
	for bits := c.Bits; bits <= 32; bits++ { // narrower grids are stored in the next wider type
		if d, ok := types[bits]; ok {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%d bits from %d to %d have no ONNX integer type", c.Bits, c.QMin, c.QMax)
}

// Codes quantizes a constant ahead of time. The result is row-major in the shape of w. Axis and group size come from c; NaN is
// an error.
func Codes(w *tensor.Tensor, c *tqc.Config, p *tqc.Params) (*tensor.Tensor, error) {
	d, err := dtypeOf(c)
	if err != nil {
		return nil, err
	}
	w = w.ToRowMajor()
	x := w.F32()
	if w.DType != tensor.Float32 {
		return nil, fmt.Errorf("a constant of type %s cannot be quantized", w.Type())
	}
	codes := make([]int32, len(x))
	for i, v := range x {
		if v != v {
			return nil, fmt.Errorf("the constant holds NaN at element %d", i)
		}
		g := p.Grid(c, channel(w, c, i))
		if c.Bits > 24 { // a bias, as the simulation has it: float32 division would lose the low bits of the code
			codes[i], _ = p.BiasCode(i, v, g.Scale)
		} else {
			codes[i] = g.Quantize(v)
		}
	}
	out := tensor.New(d, w.Shape...)
	return out, store(out, codes)
}

// baked returns the float values of codes. It is an error if quantizing them does not give the codes back, which happens where
// they are so small that float32 cannot hold them.
func baked(codes *tensor.Tensor, c *tqc.Config, p *tqc.Params) (*tensor.Tensor, error) {
	out := tensor.New(tensor.Float32, codes.Shape...)
	for i, q := range codes.Integers() {
		g := p.Grid(c, channel(codes, c, i))
		x := g.Dequantize(q)
		if back := g.Quantize(x); back != q {
			return nil, fmt.Errorf("element %d: code %d with scale %g has no float32 form (it comes back as %d)", i, q, g.Scale, back)
		}
		out.F32()[i] = x
	}
	return out, nil
}

// computable reports why QuantizeLinear would not compute what a config says: it rounds half to even, and clips where its type
// ends. Where a Clip of the integers may stand behind it (clips), 8-bit ranges may be narrower.
func computable(c *tqc.Config, clips bool) error {
	d, err := dtypeOf(c)
	if err != nil {
		return err
	}
	limits := map[tensor.DType][2]int32{tensor.Int8: {-1 << 7, 1<<7 - 1}, tensor.Uint8: {0, 1<<8 - 1}, tensor.Int16: {-1 << 15, 1<<15 - 1},
		tensor.Uint16: {0, 1<<16 - 1}, tensor.Int32: {math.MinInt32, math.MaxInt32}}[d]
	switch {
	case c.Rounding != qmath.HalfEven:
		return fmt.Errorf("rounding %s: QuantizeLinear rounds half to even", c.Rounding)
	case clips && c.Bits == 8 && c.QMin >= limits[0] && c.QMax <= limits[1]:
	case limits != [2]int32{c.QMin, c.QMax}:
		return fmt.Errorf("range %d to %d: QuantizeLinear clips %s to %d and %d", c.QMin, c.QMax, d, limits[0], limits[1])
	}
	return nil
}

// channel is the index into the scales of element i.
func channel(w *tensor.Tensor, c *tqc.Config, i int) int {
	if c.Policy.Has(tqc.PerTensor) {
		return 0
	}
	_, n, inner := w.Blocks(axisOf(c, len(w.Shape)))
	if !c.Policy.Has(tqc.PerGroup) {
		return i / inner % n
	}
	blocks := (n + c.GroupSize - 1) / c.GroupSize
	return (i/(inner*n)*blocks+i/inner%n/c.GroupSize)*inner + i%inner
}

// axisOf is the axis of the scales, counted from the front.
func axisOf(c *tqc.Config, rank int) int {
	if c.Axis < 0 {
		return c.Axis + rank
	}
	return c.Axis
}

// store writes integers into a tensor, which must be able to hold them.
func store(t *tensor.Tensor, codes []int32) error {
	switch s := t.Data.(type) {
	case []int8:
		return fill(s, codes)
	case []uint8:
		return fill(s, codes)
	case []int16:
		return fill(s, codes)
	case []uint16:
		return fill(s, codes)
	case []int32:
		return fill(s, codes)
	}
	return fmt.Errorf("no integers in %s", t.Type())
}

func fill[T int8 | uint8 | int16 | uint16 | int32](dst []T, codes []int32) error {
	if len(dst) != len(codes) {
		return fmt.Errorf("%d integers for %d elements", len(codes), len(dst))
	}
	for i, q := range codes {
		if dst[i] = T(q); int32(dst[i]) != q {
			return fmt.Errorf("%d does not fit", q)
		}
	}
	return nil
}
