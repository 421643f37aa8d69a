package tensor

import "fmt"

// Blocks describes how the elements along one logical axis lie in memory: for o in [0,outer), c in [0,n), i in [0,inner)
// the elements with index c on the axis are at (o*n+c)*inner+i. It holds for both layouts.
func (t *Tensor) Blocks(axis int) (outer, n, inner int) {
	order := t.MemoryAxes()
	outer, inner = 1, 1
	before := true
	for _, a := range order {
		switch {
		case a == axis:
			n, before = t.Shape[a], false
		case before:
			outer *= t.Shape[a]
		default:
			inner *= t.Shape[a]
		}
	}
	return outer, n, inner
}

// MemoryAxes returns the logical axes in memory order, slowest first.
func (t *Tensor) MemoryAxes() []int {
	r := len(t.Shape)
	axes := make([]int, 0, r)
	if t.Layout != ChannelsLast || r < 3 {
		for a := range r {
			axes = append(axes, a)
		}
		return axes
	}
	axes = append(axes, 0)
	for a := 2; a < r; a++ {
		axes = append(axes, a)
	}
	return append(axes, 1)
}

// ToRowMajor returns t itself if it is row-major, else a row-major copy.
func (t *Tensor) ToRowMajor() *Tensor {
	if t.Layout == RowMajor || len(t.Shape) < 3 {
		return t
	}
	out := New(t.DType, t.Shape...)
	n, c := t.Shape[0], t.Shape[1]
	transposeData(out.Data, t.Data, n, t.Len()/max(n*c, 1), c)
	return out
}

// ToChannelsLast returns t itself if it is channels-last, else a channels-last copy. It panics for a rank below 3 and for
// element types of less than a byte.
func (t *Tensor) ToChannelsLast() *Tensor {
	if t.Layout == ChannelsLast {
		return t
	}
	if b := t.DType.Bits(); len(t.Shape) < 3 || b > 0 && b < 8 {
		panic(fmt.Sprintf("tensor: %s cannot be channels-last", t.Type()))
	}
	out := New(t.DType, t.Shape...)
	out.Layout = ChannelsLast
	n, c := t.Shape[0], t.Shape[1]
	transposeData(out.Data, t.Data, n, c, t.Len()/max(n*c, 1))
	return out
}

// transposeData transposes each of n planes of rows x cols elements of storage of one Go type.
func transposeData(dst, src any, n, rows, cols int) {
	switch s := src.(type) {
	case []float32:
		TransposePlanes(dst.([]float32), s, n, rows, cols)
	case []float64:
		TransposePlanes(dst.([]float64), s, n, rows, cols)
	case []int8:
		TransposePlanes(dst.([]int8), s, n, rows, cols)
	case []int16:
		TransposePlanes(dst.([]int16), s, n, rows, cols)
	case []int32:
		TransposePlanes(dst.([]int32), s, n, rows, cols)
	case []int64:
		TransposePlanes(dst.([]int64), s, n, rows, cols)
	case []uint8:
		TransposePlanes(dst.([]uint8), s, n, rows, cols)
	case []uint16:
		TransposePlanes(dst.([]uint16), s, n, rows, cols)
	case []uint32:
		TransposePlanes(dst.([]uint32), s, n, rows, cols)
	case []uint64:
		TransposePlanes(dst.([]uint64), s, n, rows, cols)
	case []bool:
		TransposePlanes(dst.([]bool), s, n, rows, cols)
	case []string:
		TransposePlanes(dst.([]string), s, n, rows, cols)
	case []complex64:
		TransposePlanes(dst.([]complex64), s, n, rows, cols)
	case []complex128:
		TransposePlanes(dst.([]complex128), s, n, rows, cols)
	}
}

// TransposePlanes writes n planes of rows x cols as cols x rows.
func TransposePlanes[T any](dst, src []T, n, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	for k := range n {
		TransposeColumns(dst[k*rows*cols:][:rows*cols], src[k*rows*cols:][:rows*cols], rows, cols, 0, cols)
	}
}

// TransposeColumns writes columns from lo to hi of the rows x cols matrix src as rows of dst, in blocks whose lines stay in the first-level
// cache.
func TransposeColumns[T any](dst, src []T, rows, cols, lo, hi int) {
	if rows == 3 { // colours
		a, b, c := src[:hi], src[cols:][:hi], src[2*cols:][:hi]
		for i := lo; i < hi; i++ {
			d := dst[3*i:][:3]
			d[0], d[1], d[2] = a[i], b[i], c[i]
		}
		return
	}
	const block = 128
	for ; lo < hi; lo += block {
		to := min(lo+block, hi)
		r := 0
		for ; r+8 <= rows; r += 8 {
			s := src[r*cols:]
			a, b, c, d := s[:to], s[cols:][:to], s[2*cols:][:to], s[3*cols:][:to]
			e, f, g, h := s[4*cols:][:to], s[5*cols:][:to], s[6*cols:][:to], s[7*cols:][:to]
			for i := lo; i < to; i++ {
				o := (*[8]T)(dst[i*rows+r:])
				o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7] = a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]
			}
		}
		for ; r < rows; r++ {
			for i, x := range src[r*cols:][lo:to] {
				dst[(lo+i)*rows+r] = x
			}
		}
	}
}
