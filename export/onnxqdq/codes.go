package onnxqdq

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// baked returns the float values of codes. It is an error if quantizing them does not give the codes back, which happens where
// they are so small that float32 cannot hold them.
func baked(codes *tensor.Tensor, c *tqc.Config, p *tqc.Params) (*tensor.Tensor, error) {
	out, list := tensor.New(tensor.Float32, codes.Shape...), codes.Integers()
	back, wrong := make([]int32, len(list)), -1
	var scale float32
	err := tqc.Runs(codes, c, p, func(from, to int, codec qmath.Codec) bool {
		x := out.F32()[from:to]
		codec.DequantizeSlice(x, list[from:to])
		codec.QuantizeSlice(back[from:to], x)
		for i, q := range list[from:to] {
			if back[from+i] != q {
				wrong, scale = from+i, codec.Scale
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if wrong >= 0 {
		return nil, fmt.Errorf("element %d: code %d with scale %g has no float32 form (it comes back as %d)", wrong, list[wrong],
			scale, back[wrong])
	}
	return out, nil
}
