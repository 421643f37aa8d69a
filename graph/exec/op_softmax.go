package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// softmaxEvals normalize along an axis: along one since opset 13, along all from axis on before.
var softmaxEvals = []evaluator{
	{"Softmax", softmaxLike((*kernels.Table).Softmax)},
	{"LogSoftmax", softmaxLike((*kernels.Table).LogSoftmax)},
	{"Hardmax", softmaxLike(eachRow(hardmax[float32]))},
}

// rowsFunc computes rows of n elements; dst may be src.
type rowsFunc func(t *kernels.Table, par kernels.Parallel, dst, src []float32, n int)

func softmaxLike(f rowsFunc) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		if axis, flat := graph.SoftmaxAxis(n, version); !flat {
			return alongAxis(axis, f), nil
		}
		return func(c *call) error {
			if err := c.floats(); err != nil {
				return err
			}
			x := c.in(0)
			a, _, err := graph.SoftmaxAxes(n, version, len(x.Shape))
			if err != nil {
				return err
			}
			out, err := c.out(0)
			if err != nil {
				return err
			}
			f(c.run.s.table, c.run.s.par, out.F32(), x.F32(), tensor.Count(x.Shape[a:]))
			return nil
		}, nil
	}
}

// alongAxis applies f to every line of elements along an axis, in the layout that the input has. Lines whose elements are
// not neighbours are transposed into rows and back.
func alongAxis(axis int, f rowsFunc) evalFunc {
	return func(c *call) error {
		if err := c.floats(); err != nil {
			return err
		}
		x := c.raw(0)
		a, err := axisIn(axis, len(x.Shape))
		if err != nil {
			return err
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		outer, n, inner := x.Blocks(a)
		table, par := c.run.s.table, c.run.s.par
		if inner == 1 {
			f(table, par, out.F32(), x.F32(), n)
			return nil
		}
		rows, err := c.scratch(x.Len())
		if err != nil {
			return err
		}
		shape, across, along := []int{outer, inner, n}, []int{inner * n, n, 1}, []int{n * inner, 1, inner}
		move{shape: shape, dst: across, src: along}.run(c.parallel, rows, x.F32())
		f(table, par, rows, rows, n)
		move{shape: shape, dst: along, src: across}.run(c.parallel, out.F32(), rows)
		return nil
	}
}

// eachRow makes a rowsFunc of a function of one row.
func eachRow(f func(dst, src []float32)) rowsFunc {
	return func(_ *kernels.Table, _ kernels.Parallel, dst, src []float32, n int) {
		for i := 0; i < len(dst); i += n {
			f(dst[i:][:n], src[i:][:n])
		}
	}
}

// hardmax is 1 at the first maximum of a row, else 0.
func hardmax[T float32 | float64](dst, src []T) {
	best := 0
	for i, v := range src {
		if v > src[best] {
			best = i
		}
	}
	clear(dst)
	dst[best] = 1
}
