package program

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/program/steps"
)

// factor is one side of a product, with its codes.
type factor struct {
	steps.Factor
	codes []int32
}

// matrices accumulates a Gemm or MatMul.
func (l *linear) matrices(in []*tensor.Tensor) (sums, error) {
	gemm := l.node.Gemm()
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
	if l.p.Profile.Saturates && steps.Pairs(l.p, l.s, l.op) {
		zero := l.x.ZeroPoint + l.raised()
		for i := range left {
			left[i] += zero
		}
		dot = func(x, w []int32) int64 { return saturatingDot(x, w, zero) }
	}
	return l.multiply(factor{steps.FactorOf(in[0].Shape, gemm.TransA, false), left}, factor{steps.FactorOf(rightShape, gemm.TransB, true), right}, in[0].Shape, rightShape, dot)
}

// multiply multiplies stacks of matrices, with broadcasting.
func (l *linear) multiply(a, b factor, aShape, bShape []int, dot func(x, w []int32) int64) (sums, error) {
	if a.Cols != b.Rows {
		return sums{}, fmt.Errorf("shapes %v and %v cannot be multiplied", aShape, bShape)
	}
	stack, err := tensor.Broadcast(a.Stack, b.Stack)
	if err != nil {
		return sums{}, err
	}
	ia, ib := tensor.BroadcastIndex(stack, a.Stack), tensor.BroadcastIndex(stack, b.Stack)
	shape := append([]int(nil), stack...)
	if len(aShape) > 1 {
		shape = append(shape, a.Rows)
	}
	if len(bShape) > 1 {
		shape = append(shape, b.Cols)
	}
	out := sums{acc: make([]int64, len(ia)*a.Rows*b.Cols), channels: b.Cols, inner: 1, shape: shape}
	k := a.Cols
	for s := range ia {
		ma, mb := a.codes[ia[s]*a.Rows*a.Cols:], b.codes[ib[s]*b.Rows*b.Cols:]
		columns := make([][]int32, b.Cols)
		for j := range columns {
			columns[j] = make([]int32, k)
			for p := range k {
				columns[j][p] = mb[p*b.ByRow+j*b.ByCol]
			}
		}
		l.par.each(a.Rows, func(i int) {
			row := make([]int32, k)
			for p := range k {
				row[p] = ma[i*a.ByRow+p*a.ByCol]
			}
			for j, column := range columns {
				out.acc[(s*a.Rows+i)*b.Cols+j] = dot(row, column)
			}
		})
	}
	return out, nil
}
