package onnxqdq

import (
	"fmt"

	"qwb/graph/tensor"
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
		codes[i] = p.Grid(c, channel(w, c, i)).Quantize(v)
	}
	out := tensor.New(d, w.Shape...)
	return out, store(out, codes)
}

// channel is the index into the scales of element i.
func channel(w *tensor.Tensor, c *tqc.Config, i int) int {
	if c.Policy.Has(tqc.PerTensor) {
		return 0
	}
	_, n, inner := w.Blocks(c.Axis)
	if !c.Policy.Has(tqc.PerGroup) {
		return i / inner % n
	}
	blocks := (n + c.GroupSize - 1) / c.GroupSize
	return (i/(inner*n)*blocks+i/inner%n/c.GroupSize)*inner + i%inner
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
