package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/ref"
)

// softmaxEvals normalize along an axis: along one since opset 13, along all from axis on before.
var softmaxEvals = []evaluator{
	{"Softmax", softmaxLike(ref.Softmax)},
	{"LogSoftmax", softmaxLike(logSoftmax)},
	{"Hardmax", softmaxLike(hardmax)},
}

func softmaxLike(f func(dst, src []float32)) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		if version >= 13 {
			return alongAxis(int(n.AttrInt("axis", -1)), f), nil
		}
		axis := int(n.AttrInt("axis", 1))
		return func(c *call) error {
			if err := c.floats(); err != nil {
				return err
			}
			x := c.in(0)
			a := axis
			if a != len(x.Shape) { // a flattening axis may be the rank: rows of one element
				var err error
				if a, err = axisIn(axis, len(x.Shape)); err != nil {
					return err
				}
			}
			out, err := c.out(0)
			if err != nil {
				return err
			}
			eachLine(c, out.F32(), x.F32(), tensor.Count(x.Shape[:a]), tensor.Count(x.Shape[a:]), 1, f)
			return nil
		}, nil
	}
}

// alongAxis applies f to every line of elements along an axis, in the layout that the input has.
func alongAxis(axis int, f func(dst, src []float32)) evalFunc {
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
		eachLine(c, out.F32(), x.F32(), outer, n, inner, f)
		return nil
	}
}

// eachLine applies f to lines of n elements that are inner apart.
func eachLine(c *call, dst, src []float32, outer, n, inner int, f func(dst, src []float32)) {
	c.parallel(outer*inner, n*8, func(lo, hi int) {
		var line, result []float32
		if inner > 1 {
			line, result = make([]float32, n), make([]float32, n)
		}
		for i := lo; i < hi; i++ {
			if inner == 1 {
				f(dst[i*n:][:n], src[i*n:][:n])
				continue
			}
			at := i/inner*n*inner + i%inner
			for k := range line {
				line[k] = src[at+k*inner]
			}
			f(result, line)
			for k, v := range result {
				dst[at+k*inner] = v
			}
		}
	})
}

// logSoftmax is x - max - log(sum(exp(x - max))) in float64, rounded once.
func logSoftmax(dst, src []float32) {
	top := math.Inf(-1)
	for _, v := range src {
		top = math.Max(top, float64(v))
	}
	sum := 0.0
	for _, v := range src {
		sum += math.Exp(float64(v) - top)
	}
	sum = math.Log(sum)
	for i, v := range src {
		dst[i] = float32(float64(v) - top - sum)
	}
}

// hardmax is 1 at the first maximum, else 0.
func hardmax(dst, src []float32) {
	if len(src) == 0 {
		return
	}
	best := 0
	for i, v := range src {
		if v > src[best] {
			best = i
		}
	}
	clear(dst)
	dst[best] = 1
}
