package program

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/program/steps"
)

// factor is one side of a product, with its codes; those of constant weights are columns already.
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
	left := centered(in[0], &l.x)
	a := factor{steps.FactorOf(in[0].Shape, gemm.TransA, false), left}
	if w := l.op.Weights; w != nil {
		b := factor{Factor: steps.FactorOf(w.Codes.Shape, gemm.TransB, true)}
		if l.columns != nil {
			return l.multiply(a, b, in[0].Shape, w.Codes.Shape, func(int) rightColumns { return l.columns[0] })
		}
		zero := l.x.ZeroPoint + l.raised()
		for i := range left {
			left[i] += zero
		}
		return l.multiply(a, b, in[0].Shape, w.Codes.Shape, func(int) rightColumns { return &saturating{l.weights, zero} })
	}
	e := l.p.Tensors[l.s.Inputs[1]].Encoding
	b := factor{steps.FactorOf(in[1].Shape, gemm.TransB, true), centered(in[1], e)}
	return l.multiply(a, b, in[0].Shape, in[1].Shape, func(at int) rightColumns {
		codes := b.codes[at*b.Rows*b.Cols:]
		list := make([][]int32, b.Cols)
		for j := range list {
			list[j] = make([]int32, b.Rows)
			for p := range list[j] {
				list[j][p] = codes[p*b.ByRow+j*b.ByCol]
			}
		}
		return newColumns(list, reach(&l.x))
	})
}

// rightColumns is a right factor that is ready to be multiplied with.
type rightColumns interface {
	// times multiplies the first n rows with the columns: the sum of row i and column j is dst[j*byColumn+i*byRow].
	times(dst []int64, byColumn, byRow int, rows *leftRows, n int)
}

// saturating are columns whose products are added in pairs.
type saturating struct {
	list [][]int32
	zero int32
}

func (s *saturating) times(dst []int64, byColumn, byRow int, rows *leftRows, n int) {
	for i, row := range rows.list[:n] {
		for j, column := range s.list {
			dst[j*byColumn+i*byRow] = saturatingDot(row, column, s.zero)
		}
	}
}

// multiply multiplies stacks of matrices, with broadcasting; right gives the columns of one of them.
func (l *linear) multiply(a, b factor, aShape, bShape []int, right func(at int) rightColumns) (sums, error) {
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
	for s := range ia {
		ma, columns := a.codes[ia[s]*a.Rows*a.Cols:], right(ib[s])
		l.par.ranges(a.Rows, func(from, to int) {
			rows := newLeftRows(a.Cols)
			for ; from < to; from += rowsAtOnce {
				n := min(rowsAtOnce, to-from)
				for i, row := range rows.list[:n] {
					for p := range row {
						row[p] = ma[(from+i)*a.ByRow+p*a.ByCol]
					}
				}
				columns.times(out.acc[(s*a.Rows+from)*b.Cols:], 1, b.Cols, rows, n)
			}
		})
	}
	return out, nil
}
