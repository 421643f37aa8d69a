package exec

import "qwb/graph/tensor"

// CastTo returns t in another element type. It panics for types that there is no cast between.
func CastTo(d tensor.DType, t *tensor.Tensor) *tensor.Tensor {
	data, err := castTo(d, t)
	if err != nil {
		panic(err)
	}
	return &tensor.Tensor{DType: d, Layout: t.Layout, Shape: t.Shape, Data: data}
}
