package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/ref"
)

// buildSwiGLU is a * Sigmoid(alpha*a) * b of two tensors of one shape, computed in float64 and rounded once.
func buildSwiGLU(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := float64(n.Alpha())
	return func(c *call) error {
		return c.inFloat(2, func() error { return swiGLU[float32](c, alpha) }, func() error { return swiGLU[float64](c, alpha) })
	}, nil
}

func swiGLU[T float](c *call, alpha float64) error {
	a, b := c.in(0), c.in(1)
	if !slices.Equal(a.Shape, b.Shape) {
		return fmt.Errorf("gate %s and values %s differ", a.Type(), b.Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	gate, values, dst := tensor.Of[T](a), tensor.Of[T](b), tensor.Of[T](out)
	c.parallel(len(dst), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			g := float64(gate[i])
			dst[i] = T(g * ref.Sigmoid64(alpha*g) * float64(values[i]))
		}
	})
	return nil
}
