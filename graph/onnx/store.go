package onnx

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// Store returns where the constants of a model lie that was opened by its path, nil of another. Until the model is closed, what is read of
// its files is given back to the system soon, and so is what is made of constants and kept.
func (m *Model) Store() graph.Store {
	if m.src == nil || m.src.path == "" {
		return nil
	}
	m.src.maps.Trim()
	return (*store)(m.src)
}

type store source

func (s *store) Holds(t *tensor.Tensor) bool {
	b := plainBody(t)
	return b != nil && s.maps.Holds(b)
}

func (s *store) Forget(t *tensor.Tensor) {
	if b := plainBody(t); b != nil {
		s.maps.Forget(b)
	}
}

func (s *store) Keep(t *tensor.Tensor) *tensor.Tensor {
	b := plainBody(t)
	if b == nil {
		return t
	}
	if b = s.maps.Spill(b); b == nil {
		return t
	}
	scan := tensorScan{dtype: t.DType}
	for _, n := range t.Shape {
		scan.dims = append(scan.dims, int64(n))
	}
	data, err := rawData(&scan, b)
	if err != nil {
		return t
	}
	return &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: data}
}

// plainBody is the bytes of a tensor that are its elements in their order; nil where there are none.
func plainBody(t *tensor.Tensor) []byte {
	if t.Layout != tensor.RowMajor || t.DType == tensor.String {
		return nil
	}
	b, _ := tensorBody(t) // nil with an error
	return b
}
