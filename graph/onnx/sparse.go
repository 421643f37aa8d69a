package onnx

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph/tensor"
)

// sparseScan is a SparseTensorProto taken apart.
type sparseScan struct {
	raw             []byte
	values, indices *tensorScan
	dims            []int64
}

func scanSparse(b []byte) (*sparseScan, error) {
	s := &sparseScan{raw: b}
	c := cursor{rest: b}
	for c.next() {
		var err error
		switch c.f.num {
		case sparseValues:
			if c.want(protowire.BytesType) {
				s.values, err = scanTensor(c.f.data)
			}
		case sparseIndices:
			if c.want(protowire.BytesType) {
				s.indices, err = scanTensor(c.f.data)
			}
		case sparseDims:
			c.ints(&s.dims)
		}
		if err != nil {
			return nil, fmt.Errorf("sparse tensor: %w", err)
		}
	}
	if c.err == nil && (s.values == nil || s.indices == nil) {
		return nil, fmt.Errorf("sparse tensor without values or indices")
	}
	return s, c.err
}

// sparse decodes a sparse tensor into a dense one. The indices are either linear ([n]) or one row per element ([n,rank]).
func (d *decoder) sparse(s *sparseScan) (*tensor.Tensor, error) {
	values, err := d.tensor(s.values)
	if err != nil {
		return nil, err
	}
	indices, err := d.tensor(s.indices)
	if err != nil {
		return nil, fmt.Errorf("indices: %w", err)
	}
	count, err := tensor.CheckedCount(s.dims, denseBudget)
	if err != nil {
		return nil, err
	}
	if values.DType.Bits() < 8 && values.DType != tensor.String {
		return nil, fmt.Errorf("sparse tensors of %s are not supported", values.DType)
	}
	if err := d.spend(values.DType, count); err != nil {
		return nil, err
	}
	shape := make([]int, len(s.dims))
	for i, n := range s.dims {
		if n > int64(denseBudget) {
			return nil, fmt.Errorf("dimension %d of a sparse tensor is %d", i, n)
		}
		shape[i] = int(n)
	}
	at, err := linear(indices, shape, values.Len(), count)
	if err != nil {
		return nil, err
	}
	out := tensor.New(values.DType, shape...)
	scatter(out.Data, values.Data, at)
	return out, nil
}

// linear turns the indices of n elements into offsets below count.
func linear(indices *tensor.Tensor, shape []int, n, count int) ([]int, error) {
	rows := indices.I64()
	width := 1
	switch {
	case len(indices.Shape) == 1:
	case len(indices.Shape) == 2 && indices.Shape[1] == len(shape) && len(shape) > 0:
		width = len(shape)
	default:
		return nil, fmt.Errorf("indices %s do not address a tensor of shape %v", indices.Type(), shape)
	}
	if indices.DType != tensor.Int64 || len(rows) != n*width {
		return nil, fmt.Errorf("indices %s for %d values", indices.Type(), n)
	}
	at := make([]int, n)
	for i := range at {
		pos := int64(0)
		for k, x := range rows[i*width : (i+1)*width] {
			limit := int64(count)
			if width > 1 || len(indices.Shape) == 2 {
				limit = int64(shape[k])
			}
			if x < 0 || x >= limit {
				return nil, fmt.Errorf("index %d of value %d is out of range", x, i)
			}
			pos = pos*limit + x
		}
		at[i] = int(pos)
	}
	return at, nil
}

func scatter(dst, src any, at []int) {
	switch s := src.(type) {
	case []float32:
		put(dst.([]float32), s, at)
	case []float64:
		put(dst.([]float64), s, at)
	case []int8:
		put(dst.([]int8), s, at)
	case []int16:
		put(dst.([]int16), s, at)
	case []int32:
		put(dst.([]int32), s, at)
	case []int64:
		put(dst.([]int64), s, at)
	case []uint8:
		put(dst.([]uint8), s, at)
	case []uint16:
		put(dst.([]uint16), s, at)
	case []uint32:
		put(dst.([]uint32), s, at)
	case []uint64:
		put(dst.([]uint64), s, at)
	case []bool:
		put(dst.([]bool), s, at)
	case []string:
		put(dst.([]string), s, at)
	case []complex64:
		put(dst.([]complex64), s, at)
	case []complex128:
		put(dst.([]complex128), s, at)
	}
}

func put[T any](dst, src []T, at []int) {
	for i, p := range at {
		dst[p] = src[i]
	}
}
