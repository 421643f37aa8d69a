package program

import (
	"fmt"

	"qwb/graph/tensor"
)

// factor is one side of a product of matrices: a stack of them, as strides into its codes.
type factor struct {
	codes      []int32
	stack      []int // shape of the stack
	rows, cols int
	byRow      int // distance between rows, and
	byCol      int // between columns
}

// factorOf reads a tensor as a stack of matrices; a vector is a row on the left and a column on the right.
func factorOf(codes []int32, shape []int, transposed, right bool) factor {
	f := factor{codes: codes}
	switch len(shape) {
	case 1:
		if f.rows, f.cols, f.byRow, f.byCol = 1, shape[0], 0, 1; right {
			f.rows, f.cols, f.byRow, f.byCol = shape[0], 1, 1, 0
		}
	default:
		r := len(shape)
		f.stack, f.rows, f.cols, f.byRow, f.byCol = shape[:r-2], shape[r-2], shape[r-1], shape[r-1], 1
	}
	if transposed {
		f.rows, f.cols, f.byRow, f.byCol = f.cols, f.rows, f.byCol, f.byRow
	}
	return f
}

// matrices accumulates a Gemm or MatMul.
func (l *linear) matrices(in []*tensor.Tensor) (sums, error) {
	gemm := l.op.Kind == "Gemm"
	transA, transB := gemm && l.node.AttrInt("transA", 0) != 0, gemm && l.node.AttrInt("transB", 0) != 0
	for _, t := range in {
		if len(t.Shape) == 0 {
			return sums{}, fmt.Errorf("a product with the scalar %s", t.Type())
		}
	}
	right, rightShape := []int32(nil), []int(nil)
	if w := l.op.Weights; w != nil {
		right, rightShape = make([]int32, w.Codes.Len()), w.Codes.Shape
		n := rightShape[w.Axis]
		for i, q := range w.Codes.Integers() {
			c := i % n // K x N
			if w.Axis == 0 {
				c = i / (len(right) / n)
			}
			right[i] = q - w.ZeroPoint[c]
		}
	} else {
		right, rightShape = centered(in[1], l.p.Tensors[l.s.Inputs[1]].Encoding), in[1].Shape
	}
	left := centered(in[0], &l.x)
	dot := func(x, w []int32) int64 {
		acc := int64(0)
		for p := range x {
			acc += int64(x[p]) * int64(w[p])
		}
		return acc
	}
	if l.p.Profile.Saturates && l.pairs() {
		zero := l.x.ZeroPoint + l.raised()
		for i := range left {
			left[i] += zero
		}
		dot = func(x, w []int32) int64 { return saturatingDot(x, w, zero) }
	}
	return l.multiply(factorOf(left, in[0].Shape, transA, false), factorOf(right, rightShape, transB, true), in[0].Shape, rightShape, dot)
}

// multiply multiplies stacks of matrices, with broadcasting.
func (l *linear) multiply(a, b factor, aShape, bShape []int, dot func(x, w []int32) int64) (sums, error) {
	if a.cols != b.rows {
		return sums{}, fmt.Errorf("shapes %v and %v cannot be multiplied", aShape, bShape)
	}
	stack, err := tensor.Broadcast(a.stack, b.stack)
	if err != nil {
		return sums{}, err
	}
	ia, ib := broadcastIndex(stack, a.stack), broadcastIndex(stack, b.stack)
	shape := append([]int(nil), stack...)
	if len(aShape) > 1 {
		shape = append(shape, a.rows)
	}
	if len(bShape) > 1 {
		shape = append(shape, b.cols)
	}
	out := sums{acc: make([]int64, len(ia)*a.rows*b.cols), channels: b.cols, inner: 1, shape: shape}
	k := a.cols
	for s := range ia {
		ma, mb := a.codes[ia[s]*a.rows*a.cols:], b.codes[ib[s]*b.rows*b.cols:]
		columns := make([][]int32, b.cols)
		for j := range columns {
			columns[j] = make([]int32, k)
			for p := range k {
				columns[j][p] = mb[p*b.byRow+j*b.byCol]
			}
		}
		l.par.each(a.rows, func(i int) {
			row := make([]int32, k)
			for p := range k {
				row[p] = ma[i*a.byRow+p*a.byCol]
			}
			for j, column := range columns {
				out.acc[(s*a.rows+i)*b.cols+j] = dot(row, column)
			}
		})
	}
	return out, nil
}
