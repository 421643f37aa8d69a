package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/elementary"
)

var plainSoftmaxEvals = []evaluator{
	{"Softmax", plainSoftmaxLike(func(x []float64) {
		top, sum := expSum(x)
		for i, v := range x {
			x[i] = elementary.Exp(v-top) / sum
		}
	})},
	{"LogSoftmax", plainSoftmaxLike(func(x []float64) {
		top, sum := expSum(x)
		for i, v := range x {
			x[i] = v - top - math.Log(sum)
		}
	})},
	{"Hardmax", plainSoftmaxLike(func(x []float64) { hardmax(x, x) })},
}

// expSum returns the maximum of a line and the sum of exp(x - maximum).
func expSum(x []float64) (top, sum float64) {
	top = math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	for _, v := range x {
		sum += elementary.Exp(v - top)
	}
	return top, sum
}

func plainSoftmaxLike(f func(x []float64)) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		if axis, flat := graph.SoftmaxAxis(n, version); !flat {
			return plainLines(axis, f), nil
		}
		return func(c *call) error {
			from, _, err := graph.SoftmaxAxes(n, version, len(c.in(0).Shape))
			if err != nil {
				return err
			}
			return c.lines(1, tensor.Count(c.in(0).Shape[from:]), f)
		}, nil
	}
}

// plainLines applies f to every line of elements along an axis.
func plainLines(axis int, f func(x []float64)) evalFunc {
	return func(c *call) error {
		a, err := axisIn(axis, len(c.in(0).Shape))
		if err != nil {
			return err
		}
		_, n, inner := blocks(c.in(0).Shape, a)
		return c.lines(inner, n, f)
	}
}

// lines computes output 0: f changes lines of n elements that are step apart.
func (c *call) lines(step, n int, f func(x []float64)) error {
	dst, set, err := c.outF64(0)
	if err != nil {
		return err
	}
	src, line := c.f64(0), make([]float64, n)
	for i := 0; n > 0 && i < len(src)/n; i++ {
		at := i/step*step*n + i%step
		for k := range line {
			line[k] = src[at+k*step]
		}
		f(line)
		for k, v := range line {
			dst[at+k*step] = v
		}
	}
	set()
	return nil
}
