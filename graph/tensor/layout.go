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

// ToRowMajor returns t itself if it is row-major, else a row-major copy. Only float32 tensors have another layout.
func (t *Tensor) ToRowMajor() *Tensor {
	if t.Layout == RowMajor || len(t.Shape) < 3 {
		return t
	}
	out := New(t.DType, t.Shape...)
	n, c := t.Shape[0], t.Shape[1]
	transposePlanes(out.F32(), t.F32(), n, t.Len()/max(n*c, 1), c)
	return out
}

// ToChannelsLast returns t itself if it is channels-last, else a channels-last copy of a float32 tensor of rank 3 or more.
func (t *Tensor) ToChannelsLast() *Tensor {
	if t.Layout == ChannelsLast {
		return t
	}
	if len(t.Shape) < 3 || t.DType != Float32 {
		panic(fmt.Sprintf("tensor: %s cannot be channels-last", t.Type()))
	}
	out := New(t.DType, t.Shape...)
	out.Layout = ChannelsLast
	n, c := t.Shape[0], t.Shape[1]
	transposePlanes(out.F32(), t.F32(), n, c, t.Len()/max(n*c, 1))
	return out
}

// transposePlanes transposes each of n planes of rows x cols elements.
func transposePlanes(dst, src []float32, n, rows, cols int) {
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
