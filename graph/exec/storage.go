package exec

import "qwb/graph/tensor"

// storage is the elements of a tensor whatever their Go type: what operators need that move elements without looking at them.
// Where a method takes another storage it is of the same Go type.
type storage interface {
	// move is move.run for this destination.
	move(m move, par parallelFor, src any)
	// gather sets block i, of n elements, to block index[i] of src.
	gather(src any, index []int, n int)
	// scatter sets block index[i], of n elements, to block i of src.
	scatter(src any, index []int, n int)
	// pick sets every element to that of src whose offset is the sum of one entry per axis: index (i0, i1, ...) of the
	// destination, row-major, takes src[at[0][i0]+at[1][i1]+...]. A negative sum takes the element of blank instead.
	pick(src any, at [][]int, blank any, par parallelFor)
	// fill sets every element to the first of src.
	fill(src any)
	// part returns elements [off, off+n): last if it is that already, so that nothing is allocated.
	part(last any, off, n int) any
}

// storageOf returns the storage of a tensor's data, nil for data of no known type.
func storageOf(data any) storage {
	switch d := data.(type) {
	case []float32:
		return typed[float32](d)
	case []float64:
		return typed[float64](d)
	case []int8:
		return typed[int8](d)
	case []int16:
		return typed[int16](d)
	case []int32:
		return typed[int32](d)
	case []int64:
		return typed[int64](d)
	case []uint8:
		return typed[uint8](d)
	case []uint16:
		return typed[uint16](d)
	case []uint32:
		return typed[uint32](d)
	case []uint64:
		return typed[uint64](d)
	case []bool:
		return typed[bool](d)
	case []string:
		return typed[string](d)
	case []complex64:
		return typed[complex64](d)
	case []complex128:
		return typed[complex128](d)
	}
	return nil
}

type typed[T any] []T

func (d typed[T]) move(m move, par parallelFor, src any) { moveElements(m, par, d, src.([]T)) }

func (d typed[T]) gather(src any, index []int, n int) {
	s := src.([]T)
	if n == 1 {
		for i, k := range index {
			d[i] = s[k]
		}
		return
	}
	for i, k := range index {
		copy(d[i*n:(i+1)*n], s[k*n:(k+1)*n])
	}
}

func (d typed[T]) scatter(src any, index []int, n int) {
	s := src.([]T)
	for i, k := range index {
		copy(d[k*n:(k+1)*n], s[i*n:(i+1)*n])
	}
}

func (d typed[T]) pick(src any, at [][]int, blank any, par parallelFor) {
	s := src.([]T)
	var b T
	if blank != nil {
		b = blank.([]T)[0]
	}
	r := len(at) - 1
	shape := make([]int, r)
	for a := range shape {
		shape[a] = len(at[a])
	}
	last := at[r]
	par(tensor.Count(shape), len(last), func(lo, hi int) {
		it := newCounter(shape, lo)
		for i := lo; i < hi; i++ {
			base := 0
			for a, k := range it.index {
				base += at[a][k]
			}
			row := d[i*len(last):][:len(last)]
			for k, off := range last {
				if row[k] = b; base+off >= 0 {
					row[k] = s[base+off]
				}
			}
			it.next()
		}
	})
}

func (d typed[T]) fill(src any) { fill(d, src.([]T)[0]) }

func (d typed[T]) part(last any, off, n int) any {
	part := d[off : off+n : off+n]
	if old, ok := last.([]T); ok && len(old) == n && n > 0 && &old[0] == &part[0] {
		return last
	}
	return []T(part)
}

// outside is an entry of pick that makes the sum of any others negative; that of 16 of them does not overflow.
const outside = -1 << (27 + 13*wide)

// storageCount returns the length of the storage of n elements of type d.
func storageCount(d tensor.DType, n int) int {
	if b := d.Bits(); b > 0 && b < 8 {
		return d.Bytes(n)
	}
	return n
}

func storageLen(t *tensor.Tensor) int { return storageCount(t.DType, t.Len()) }

// fits reports whether the data of t has the Go type of its element type and n elements.
func fits(t *tensor.Tensor, n int) bool {
	d, have := tensor.Undefined, 0
	switch s := t.Data.(type) {
	case []float32:
		d, have = tensor.Float32, len(s)
	case []float64:
		d, have = tensor.Float64, len(s)
	case []int8:
		d, have = tensor.Int8, len(s)
	case []int16:
		d, have = tensor.Int16, len(s)
	case []int32:
		d, have = tensor.Int32, len(s)
	case []int64:
		d, have = tensor.Int64, len(s)
	case []uint8:
		d, have = tensor.Uint8, len(s)
	case []uint16:
		d, have = tensor.Uint16, len(s)
	case []uint32:
		d, have = tensor.Uint32, len(s)
	case []uint64:
		d, have = tensor.Uint64, len(s)
	case []bool:
		d, have = tensor.Bool, len(s)
	case []string:
		d, have = tensor.String, len(s)
	case []complex64:
		d, have = tensor.Complex64, len(s)
	case []complex128:
		d, have = tensor.Complex128, len(s)
	}
	return d != tensor.Undefined && d == tensor.DType(poolOf(t.DType)) && have == storageCount(t.DType, n)
}
