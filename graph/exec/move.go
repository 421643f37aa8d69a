package exec

import (
	"slices"

	"qwb/graph/tensor"
)

// move copies elements between two regularly spaced sets: for every index (i0, i1, ...) inside shape,
// dst[dstOff + sum(i*dst)] = src[srcOff + sum(i*src)]. A stride of 0 repeats an element, a negative one walks backwards.
// Transposing, slicing, joining, repeating and changing the layout are moves.
type move struct {
	shape, dst, src []int
	dstOff, srcOff  int
}

// run copies; dst and src are storage of the same Go type. par may divide the work.
func (m move) run(par parallelFor, dst, src any) {
	if st := storageOf(dst); st != nil {
		st.move(m.simplify(), par, src)
	}
}

// simplify drops axes of one element, joins axes that are contiguous on both sides, and puts an axis whose elements are
// neighbours on both sides last, where they are copied as a run: the channels of a channels-last Concat, for instance.
func (m move) simplify() move {
	out := move{dstOff: m.dstOff, srcOff: m.srcOff}
	for a, n := range m.shape {
		if n == 1 {
			continue
		}
		if k := len(out.shape) - 1; k >= 0 && out.dst[k] == n*m.dst[a] && out.src[k] == n*m.src[a] {
			out.shape[k] *= n
			out.dst[k], out.src[k] = m.dst[a], m.src[a]
			continue
		}
		out.shape, out.dst, out.src = append(out.shape, n), append(out.dst, m.dst[a]), append(out.src, m.src[a])
	}
	for a := range len(out.shape) - 1 {
		if out.dst[a] == 1 && out.src[a] == 1 {
			for _, list := range [][]int{out.shape, out.dst, out.src} {
				n := list[a]
				copy(list[a:], list[a+1:])
				list[len(list)-1] = n
			}
			break
		}
	}
	return out
}

func moveElements[T any](m move, par parallelFor, dst, src []T) {
	if slices.Contains(m.shape, 0) {
		return
	}
	r := len(m.shape)
	if r == 0 {
		dst[m.dstOff] = src[m.srcOff]
		return
	}
	inner := 1 // axes that the innermost routine handles
	if r >= 2 && m.src[r-1] != 1 && m.src[r-2] == 1 {
		inner = 2
	}
	outer := tensor.Count(m.shape[:r-inner])
	cost := tensor.Count(m.shape[r-inner:])
	if outer == 1 && inner == 2 { // divide the rows of a single transposed plane
		par(m.shape[0], m.shape[1], func(lo, hi int) {
			moveTile(dst, src, m.dstOff+lo*m.dst[0], m.srcOff+lo*m.src[0], hi-lo, m.shape[1], m.dst, m.src)
		})
		return
	}
	if outer == 1 {
		par(m.shape[0], 1, func(lo, hi int) {
			moveRow(dst, src, m.dstOff+lo*m.dst[0], m.srcOff+lo*m.src[0], hi-lo, m.dst[0], m.src[0])
		})
		return
	}
	par(outer, cost, func(lo, hi int) {
		it := newCounter(m.shape[:r-inner], lo)
		for i := lo; i < hi; i++ {
			d, s := m.dstOff+it.dot(m.dst), m.srcOff+it.dot(m.src)
			if inner == 1 {
				moveRow(dst, src, d, s, m.shape[r-1], m.dst[r-1], m.src[r-1])
			} else {
				moveTile(dst, src, d, s, m.shape[r-2], m.shape[r-1], m.dst[r-2:], m.src[r-2:])
			}
			it.next()
		}
	})
}

// moveRow copies n elements.
func moveRow[T any](dst, src []T, d, s, n, ds, ss int) {
	switch {
	case ds == 1 && ss == 1:
		copy(dst[d:d+n], src[s:s+n])
	case ds == 1 && ss == 0:
		fill(dst[d:d+n], src[s])
	case ds == 1:
		row := dst[d : d+n]
		for i := range row {
			row[i] = src[s]
			s += ss
		}
	default:
		for range n {
			dst[d] = src[s]
			d += ds
			s += ss
		}
	}
}

// moveTile copies rows x cols elements in tiles, both sides of which stay in the first-level cache. ds and ss are the
// strides of rows and columns.
func moveTile[T any](dst, src []T, d0, s0, rows, cols int, ds, ss []int) {
	const tile = 16
	dc, sc := ds[1], ss[1]
	for r0 := 0; r0 < rows; r0 += tile {
		r1 := min(r0+tile, rows)
		for c0 := 0; c0 < cols; c0 += tile {
			n := min(tile, cols-c0)
			for r := r0; r < r1; r++ {
				d, s := d0+r*ds[0]+c0*dc, s0+r*ss[0]+c0*sc
				for range n {
					dst[d] = src[s]
					d += dc
					s += sc
				}
			}
		}
	}
}

// counter walks the indices of a shape, the last axis fastest.
type counter struct {
	shape, index []int
}

// newCounter starts at the i-th index.
func newCounter(shape []int, i int) *counter {
	c := &counter{shape: shape, index: make([]int, len(shape))}
	for a := len(shape) - 1; a >= 0 && shape[a] > 0; a-- {
		c.index[a] = i % shape[a]
		i /= shape[a]
	}
	return c
}

func (c *counter) next() {
	for a := len(c.index) - 1; a >= 0; a-- {
		if c.index[a]++; c.index[a] < c.shape[a] {
			return
		}
		c.index[a] = 0
	}
}

// dot returns the offset of the index under strides; surplus strides are ignored.
func (c *counter) dot(stride []int) int {
	at := 0
	for a, i := range c.index {
		at += i * stride[a]
	}
	return at
}

// copyElements copies n elements between storages of the same Go type.
func copyElements(dst any, dstOff int, src any, srcOff, n int) {
	move{shape: []int{n}, dst: []int{1}, src: []int{1}, dstOff: dstOff, srcOff: srcOff}.run(serial, dst, src)
}

func serial(n, _ int, f func(lo, hi int)) { f(0, n) }
