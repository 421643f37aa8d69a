package exec

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
)

// matrixEvals look at whole matrices.
var matrixEvals = []evaluator{
	{op: "Det", build: simple(func(c *call) error {
		return c.inFloat(1, func() error { return determinants[float32](c) }, func() error { return determinants[float64](c) })
	})},
}

// determinants eliminates each matrix in float64, with the largest element of a column as pivot.
func determinants[T float](c *call) error {
	x := c.in(0)
	r := len(x.Shape)
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		return fmt.Errorf("%s is not square", x.Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	n, src, dst := x.Shape[r-1], tensor.Of[T](x), tensor.Of[T](out)
	c.parallel(len(dst), n*n*n, func(lo, hi int) {
		m := make([]float64, n*n)
		for i := lo; i < hi; i++ {
			for k, v := range src[i*n*n:][:n*n] {
				m[k] = float64(v)
			}
			dst[i] = T(determinant(m, n))
		}
	})
	return nil
}

// determinant overwrites m, n x n.
func determinant(m []float64, n int) float64 {
	det := 1.0
	for col := range n {
		pivot := col
		for row := col + 1; row < n; row++ {
			if math.Abs(m[row*n+col]) > math.Abs(m[pivot*n+col]) {
				pivot = row
			}
		}
		p := m[pivot*n+col]
		if p == 0 {
			return 0
		}
		if pivot != col {
			det = -det
			for k := range n {
				m[pivot*n+k], m[col*n+k] = m[col*n+k], m[pivot*n+k]
			}
		}
		det *= p
		for row := col + 1; row < n; row++ {
			f := m[row*n+col] / p
			for k := col + 1; k < n; k++ {
				m[row*n+k] -= f * m[col*n+k]
			}
		}
	}
	return det
}
