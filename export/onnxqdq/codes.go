package onnxqdq

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// baked returns the float values of codes. It is an error if quantizing them does not give the codes back, which happens where
// they are so small that float32 cannot hold them.
func baked(codes *tensor.Tensor, c *tqc.Config, p *tqc.Params) (*tensor.Tensor, error) {
	parts, err := tqc.PartsOf(codes, c)
	if err != nil {
		return nil, err
	}
	out := tensor.New(tensor.Float32, codes.Shape...)
	for i, q := range codes.Integers() {
		g := p.Codec(c, parts.Of(i))
		x := g.Dequantize(q)
		if back := g.Quantize(x); back != q {
			return nil, fmt.Errorf("element %d: code %d with scale %g has no float32 form (it comes back as %d)", i, q, g.Scale, back)
		}
		out.F32()[i] = x
	}
	return out, nil
}
