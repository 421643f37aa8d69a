package onnx

import (
	"fmt"

	"qwb/graph/tensor"
)

const (
	// maxDepth bounds how deep graphs may lie in graphs.
	maxDepth = 64
	// denseBudget bounds the memory that the sparse tensors of one file may take once they are dense.
	denseBudget = 1 << 28
)

// decoder reads the tensors of one file: it knows where external data lies and how much memory may still be given to
// tensors that are larger than the bytes they were stored in.
type decoder struct {
	external  func(location string) ([]byte, error) // nil: the file may not refer to others
	locations map[string]bool                       // external files referred to so far
	budget    int64
}

func newDecoder(ext ExternalResolver) *decoder {
	d := &decoder{locations: map[string]bool{}, budget: denseBudget}
	if ext != nil {
		d.external = ext.External
	}
	return d
}

// spend takes the bytes of n elements of type t from the budget.
func (d *decoder) spend(t tensor.DType, n int) error {
	size := int64(t.Bytes(n))
	if t == tensor.String {
		size = int64(n) * 16
	}
	if size > d.budget {
		return fmt.Errorf("%d elements would take more than the %d MiB granted to sparse tensors", n, denseBudget>>20)
	}
	d.budget -= size
	return nil
}
