package onnxgo

import (
	"fmt"
	"slices"

	gorgonia "gorgonia.org/tensor"

	"qwb/graph"
	"qwb/graph/tensor"
)

// attr makes an attribute of a value that onnx-go decoded.
func attr(name string, v any) (graph.Attr, error) {
	switch v := v.(type) {
	case float32:
		return graph.Float(name, v), nil
	case int64:
		return graph.Int(name, v), nil
	case string:
		return graph.Str(name, v), nil
	case []float32:
		return graph.Floats(name, v...), nil
	case []int64:
		return graph.Ints(name, v...), nil
	case []string:
		return graph.Attr{Name: name, Kind: graph.AttrStrings, Strings: v}, nil
	case gorgonia.Tensor:
		t, err := fromGorgonia(v)
		return graph.TensorAttr(name, t), err
	}
	return graph.Attr{}, fmt.Errorf("attribute %q has type %T", name, v)
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
