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
		transposePlanes(dst.([]float32), s, n, rows, cols)
	case []float64:
		transposePlanes(dst.([]float64), s, n, rows, cols)
	case []int8:
		transposePlanes(dst.([]int8), s, n, rows, cols)
	case []int16:
		transposePlanes(dst.([]int16), s, n, rows, cols)
	case []int32:
		transposePlanes(dst.([]int32), s, n, rows, cols)
	case []int64:
		transposePlanes(dst.([]int64), s, n, rows, cols)
	case []uint8:
		transposePlanes(dst.([]uint8), s, n, rows, cols)
	case []uint16:
		transposePlanes(dst.([]uint16), s, n, rows, cols)
	case []uint32:
		transposePlanes(dst.([]uint32), s, n, rows, cols)
	case []uint64:
		transposePlanes(dst.([]uint64), s, n, rows, cols)
	case []bool:
		transposePlanes(dst.([]bool), s, n, rows, cols)
	case []string:
		transposePlanes(dst.([]string), s, n, rows, cols)
	case []complex64:
		transposePlanes(dst.([]complex64), s, n, rows, cols)
	case []complex128:
		transposePlanes(dst.([]complex128), s, n, rows, cols)
	}
}

// transposePlanes transposes each of n planes of rows x cols elements.
func transposePlanes[T any](dst, src []T, n, rows, cols int) {
	const tile = 16 // both sides of a tile stay in L1
	for p := range n {
		d, s := dst[p*rows*cols:][:rows*cols], src[p*rows*cols:][:rows*cols]
		for r0 := 0; r0 < rows; r0 += tile {
			r1 := min(r0+tile, rows)
			for c0 := 0; c0 < cols; c0 += tile {
				c1 := min(c0+tile, cols)
				for r := r0; r < r1; r++ {
					for c := c0; c < c1; c++ {
						d[c*rows+r] = s[r*cols+c]
					}
				}
			}
		}
	}
}
