package gpu

import (
	"unsafe"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/program/steps"
)

// value is a tensor during a run of the CUDA backend: on the device, on the host, or on both.
type value struct {
	dtype tensor.DType
	shape []int
	// buf is where the elements lie on the device, in the layout that last says; held says that they are there.
	buf  cuda.Buffer
	held bool
	last bool // channels-last
	// host is the tensor row-major, nil where the host does not have it.
	host *tensor.Tensor
	// fixed says that the elements depend on nothing but the shapes of the program's inputs: they are the same in every run.
	fixed bool
	// constant says that they belong to the program, and stay on the device as long as the engine is there.
	constant bool
	twin     *value // the same elements in the other layout, nil until somebody wants them
	of       *value // whose memory it has, nil where it has its own
	refs     int    // of a tape: tensors of the program, and values that have its memory

	birth, death int // the first and the last call of a run in which its memory is needed
	offset       int // in the arena
	staged       int // in the pinned buffer, -1 for none
}

func newValue(d tensor.DType, shape []int, last bool) *value {
	return &value{dtype: d, shape: shape, last: last, staged: -1}
}

// hostValue returns the value of a row-major tensor that the host has.
func hostValue(t *tensor.Tensor, fixed bool) *value {
	v := newValue(t.DType, t.Shape, false)
	v.host, v.fixed = t, fixed
	return v
}

// hold counts one more reader of v.
func (v *value) hold() *value {
	v.refs++
	return v
}

// len is the number of elements.
func (v *value) len() int { return tensor.Count(v.shape) }

// size is the number of bytes on the device.
func (v *value) size() int { return v.dtype.Bytes(v.len()) }

// owner is the value whose memory v has.
func (v *value) owner() *value {
	for v.of != nil {
		v = v.of
	}
	return v
}

// moved reports whether the elements lie elsewhere channels-last than row-major.
func (v *value) moved() bool { return steps.Moved(v.shape) }

// bytesOf is the memory of a tensor's elements, nil for types that the device does not have.
func bytesOf(t *tensor.Tensor) []byte {
	switch d := t.Data.(type) {
	case []float32:
		return rawBytes(d)
	case []uint8:
		return d
	case []int8:
		return rawBytes(d)
	case []int16:
		return rawBytes(d)
	case []uint16:
		return rawBytes(d)
	case []int32:
		return rawBytes(d)
	case []bool:
		return rawBytes(d)
	case []uint32:
		return rawBytes(d)
	case []int64:
		return rawBytes(d)
	case []uint64:
		return rawBytes(d)
	case []float64:
		return rawBytes(d)
	}
	return nil
}

func rawBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// rearranged writes the elements of src, of size bytes each, to dst in the other layout; last is that of dst.
func rearranged(dst, src []byte, shape []int, size int, last bool) {
	n, c, positions := shape[0], shape[1], tensor.Count(shape[2:])
	rows, cols := c, positions
	if !last {
		rows, cols = positions, c
	}
	switch size {
	case 1:
		tensor.TransposePlanes(dst, src, n, rows, cols)
	case 2:
		tensor.TransposePlanes(asWords[uint16](dst), asWords[uint16](src), n, rows, cols)
	case 4:
		tensor.TransposePlanes(asWords[uint32](dst), asWords[uint32](src), n, rows, cols)
	}
}

// asWords reads bytes as the elements that they are the memory of.
func asWords[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
