package onnxqdq

import (
	"fmt"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Codes quantizes a constant ahead of time, into elements of type d. The result is row-major in the shape of w. Axis and group size
// come from c; NaN is an error.
func Codes(w *tensor.Tensor, c *tqc.Config, p *tqc.Params, d tensor.DType) (*tensor.Tensor, error) {
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
		g := p.Codec(c, channel(w, c, i))
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
		g := p.Codec(c, channel(codes, c, i))
		x := g.Dequantize(q)
		if back := g.Quantize(x); back != q {
			return nil, fmt.Errorf("element %d: code %d with scale %g has no float32 form (it comes back as %d)", i, q, g.Scale, back)
		}
		out.F32()[i] = x
	}
	return out, nil
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

// store writes codes into a tensor, which must be able to hold them.
func store(t *tensor.Tensor, codes []int32) error {
	*t = *t.WithIntegers(codes)
	for i, q := range t.Integers() {
		if q != codes[i] {
			return fmt.Errorf("%d does not fit into %s", codes[i], t.DType)
		}
	}
	return nil
}
