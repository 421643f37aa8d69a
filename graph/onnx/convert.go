//go:build !js

package onnx

import (
	"fmt"
	"slices"

	gorgonia "gorgonia.org/tensor"

	"qwb/graph"
	"qwb/graph/tensor"
)

// stockAttr is attrFrom with the tensors that onnx-go decodes.
func stockAttr(name string, v any) (graph.Attr, error) {
	if t, ok := v.(gorgonia.Tensor); ok {
		own, err := fromGorgonia(t)
		return graph.TensorAttr(name, own), err
	}
	return attrFrom(name, v)
}

// fromGorgonia wraps the elements of a dense tensor of onnx-go's tensor library.
func fromGorgonia(t gorgonia.Tensor) (*tensor.Tensor, error) {
	out := &tensor.Tensor{Shape: slices.Clone([]int(t.Shape()))}
	switch d := t.Data().(type) {
	case float32:
		out.DType, out.Data = tensor.Float32, []float32{d}
	case float64:
		out.DType, out.Data = tensor.Float64, []float64{d}
	case int32:
		out.DType, out.Data = tensor.Int32, []int32{d}
	case int64:
		out.DType, out.Data = tensor.Int64, []int64{d}
	case bool:
		out.DType, out.Data = tensor.Bool, []bool{d}
	case []float32:
		out.DType, out.Data = tensor.Float32, d
	case []float64:
		out.DType, out.Data = tensor.Float64, d
	case []int32:
		out.DType, out.Data = tensor.Int32, d
	case []int64:
		out.DType, out.Data = tensor.Int64, d
	case []bool:
		out.DType, out.Data = tensor.Bool, d
	default:
		return nil, fmt.Errorf("elements of type %T", d)
	}
	return out, nil
}
