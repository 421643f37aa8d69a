package device

import (
	"slices"
	"unsafe"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

// Taps see values while a graph runs. They change nothing.
type Taps struct {
	// Wants says which values Tap is called for: graph inputs and what nodes compute, constants are never among them; nil is all. The
	// plan depends on the answers: what is not wanted need not exist.
	Wants func(v graph.ValueID) bool
	// Tap is called in order of execution, when the work that computes v has been put on the stream. Kernels that it launches on s
	// see the elements; what it does on other streams has to wait for s, and the elements are gone when s has come further. It may
	// synchronize s.
	Tap func(s *cuda.Stream, v Value) error
}

func (t *Taps) wants(v graph.ValueID) bool { return t.Wants == nil || t.Wants(v) }

// Value is a tensor on the device. Elements lie in the order of Layout, as in a tensor.Tensor; bools are bytes.
type Value struct {
	ID     graph.ValueID
	DType  tensor.DType
	Shape  []int
	Layout tensor.Layout
	Buffer cuda.Buffer
}

// Len returns the number of elements.
func (v Value) Len() int { return tensor.Count(v.Shape) }

// Download returns a copy on the host in the same layout. It waits for the stream.
func (v Value) Download(s *cuda.Stream) (*tensor.Tensor, error) {
	t := &tensor.Tensor{DType: v.DType, Layout: v.Layout, Shape: slices.Clone(v.Shape), Data: tensor.MakeData(v.DType, v.Len())}
	if err := s.Download(bytesOf(t.Data), v.Buffer); err != nil {
		return nil, err
	}
	return t, s.Synchronize()
}

// bytesOf returns the elements of a tensor as bytes that share its memory, nil for types that are not on a device.
func bytesOf(data any) []byte {
	switch d := data.(type) {
	case []float32:
		return asBytes(d)
	case []float64:
		return asBytes(d)
	case []int8:
		return asBytes(d)
	case []int16:
		return asBytes(d)
	case []int32:
		return asBytes(d)
	case []int64:
		return asBytes(d)
	case []uint8:
		return d
	case []uint16:
		return asBytes(d)
	case []uint32:
		return asBytes(d)
	case []uint64:
		return asBytes(d)
	case []bool:
		return asBytes(d)
	}
	return nil
}

func asBytes[T any](d []T) []byte {
	if len(d) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&d[0])), len(d)*int(unsafe.Sizeof(d[0])))
}

// sizeOf returns the bytes of one element on the device, 0 for types that are not there.
func sizeOf(d tensor.DType) int {
	switch d {
	case tensor.String, tensor.Complex64, tensor.Complex128, tensor.Undefined:
		return 0
	}
	if b := d.Bits(); b >= 8 {
		return b / 8
	}
	if d == tensor.Bool {
		return 1
	}
	return 0
}

// strides returns, by logical axis, how far apart neighbours lie in memory.
func strides(shape []int, layout tensor.Layout) []int {
	s := make([]int, len(shape))
	step := 1
	t := tensor.Tensor{Shape: shape, Layout: layout}
	axes := t.MemoryAxes()
	for i := len(axes) - 1; i >= 0; i-- {
		s[axes[i]] = step
		step *= shape[axes[i]]
	}
	return s
}

// sameOrder reports whether the elements of a shape lie in the same order in both layouts: there is one channel, or one position.
func sameOrder(shape []int) bool {
	return len(shape) < 3 || shape[1] == 1 || tensor.Count(shape[2:]) == 1
}

// valueID shortens what this package names most.
type valueID = graph.ValueID

// ptrOf is a distance in bytes as the driver has it.
func ptrOf(bytes int) driver.Ptr { return driver.Ptr(bytes) }
