package exec

import (
	"qwb/graph/tensor"
)

// broadcast says how the elements of several operands meet those of an output: in the output's memory order, with the step of
// each operand along each axis (0 where it repeats).
type broadcast struct {
	shape []int
	steps [][]int // by operand
}

// broadcastTo lines the operands up with an output of the given shape and layout. Operands are aligned at the last axis; axis
// 0 or above places the first axis of every operand of lower rank there instead (ONNX before opset 7).
func broadcastTo(shape []int, layout tensor.Layout, axis int, operands ...*tensor.Tensor) broadcast {
	out := tensor.Tensor{Shape: shape, Layout: layout}
	axes := out.MemoryAxes()
	b := broadcast{steps: make([][]int, len(operands))}
	all := make([][]int, len(operands))
	for k, t := range operands {
		all[k] = alignedStrides(t, len(shape), axis)
	}
	for _, a := range axes {
		n := shape[a]
		if n == 1 {
			continue
		}
		last := len(b.shape) - 1
		joins := last >= 0
		for k := range operands {
			joins = joins && b.steps[k][last] == n*all[k][a]
		}
		if joins {
			b.shape[last] *= n
			for k := range operands {
				b.steps[k][last] = all[k][a]
			}
			continue
		}
		b.shape = append(b.shape, n)
		for k := range operands {
			b.steps[k] = append(b.steps[k], all[k][a])
		}
	}
	if len(b.shape) == 0 {
		b.shape = []int{1}
		for k := range b.steps {
			b.steps[k] = []int{0}
		}
	}
	return b
}

// alignedStrides returns the strides of t along the axes of an output of the given rank, 0 where t repeats.
func alignedStrides(t *tensor.Tensor, rank, axis int) []int {
	own := strides(t)
	out := make([]int, rank)
	shift := rank - len(own)
	if axis >= 0 && shift > 0 {
		shift = min(axis, shift)
	}
	for i, s := range own {
		if t.Shape[i] != 1 {
			out[i+shift] = s
		}
	}
	return out
}

// rows calls f for every run of elements that are consecutive in the output: their offset and number, and the offset of each
// operand. The steps within a row are rowSteps.
func (b broadcast) rows(par parallelFor, cost int, f func(at, n int, from []int)) {
	last := len(b.shape) - 1
	n := b.shape[last]
	outer := tensor.Count(b.shape[:last])
	if n == 0 || outer == 0 {
		return
	}
	if outer == 1 {
		par(n, cost, func(lo, hi int) {
			from := make([]int, len(b.steps))
			for k := range from {
				from[k] = lo * b.steps[k][0]
			}
			f(lo, hi-lo, from)
		})
		return
	}
	par(outer, n*cost, func(lo, hi int) {
		it := newCounter(b.shape[:last], lo)
		from := make([]int, len(b.steps))
		for i := lo; i < hi; i++ {
			for k := range from {
				from[k] = it.dot(b.steps[k])
			}
			f(i*n, n, from)
			it.next()
		}
	})
}

// rowStep returns the step of operand k within a row.
func (b broadcast) rowStep(k int) int { return b.steps[k][len(b.shape)-1] }

// gathered is how many elements of a row are brought together at a time.
const gathered = 256

// along is an operand along a row, of which parts of up to gathered elements are asked for, from the first on.
type along[T any] struct {
	x          []T
	from, step int
	row        [gathered]T
}

// part is n elements from lo on: of x itself where they are neighbours, else copied; what repeats is written once.
func (o *along[T]) part(lo, n int) []T {
	row := o.row[:n]
	switch {
	case o.step == 1:
		return o.x[o.from+lo:][:n]
	case o.step != 0:
		for i := range row {
			row[i] = o.x[o.from+(lo+i)*o.step]
		}
	case lo == 0:
		fill(row, o.x[o.from])
	}
	return row
}

// operands returns the inputs of an elementwise operator in layouts that suit each other and the layout of its result:
// channels-last as soon as one input of full rank is, so that chains between convolutions are not converted.
func (c *call) operands(shape []int) ([]*tensor.Tensor, tensor.Layout) {
	layout := tensor.RowMajor
	for i := range c.ins {
		if t := c.raw(i); t != nil && t.Layout == tensor.ChannelsLast && len(t.Shape) == len(shape) && !sameOrder(t.Shape) {
			layout = tensor.ChannelsLast
		}
	}
	list := make([]*tensor.Tensor, len(c.ins))
	for i := range c.ins {
		list[i] = c.raw(i)
		if t := list[i]; t != nil && len(t.Shape) == len(shape) && !sameOrder(t.Shape) {
			list[i] = c.as(i, layout)
		}
	}
	return list, layout
}

// zip computes out = f(a, b) element by element under broadcasting.
func zip[A, B, U any](c *call, br broadcast, out []U, a []A, b []B, cost int, f func(A, B) U) {
	sa, sb := br.rowStep(0), br.rowStep(1)
	br.rows(c.parallel, cost, func(at, n int, from []int) {
		zipRow(out[at:at+n], a, b, from[0], from[1], sa, sb, f)
	})
}

func zipRow[A, B, U any](dst []U, a []A, b []B, i, j, sa, sb int, f func(A, B) U) {
	switch {
	case sa == 1 && sb == 1:
		a, b = a[i:][:len(dst)], b[j:][:len(dst)]
		for k := range dst {
			dst[k] = f(a[k], b[k])
		}
	case sa == 1 && sb == 0:
		y := b[j]
		for k, x := range a[i:][:len(dst)] {
			dst[k] = f(x, y)
		}
	default:
		for k := range dst {
			dst[k] = f(a[i], b[j])
			i += sa
			j += sb
		}
	}
}
