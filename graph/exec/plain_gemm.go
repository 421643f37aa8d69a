package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

var plainGemmEvals = []evaluator{
	{"MatMul", simple(func(c *call) error {
		return byNumber(c, plainMatMul[float64], intFuncs{plainMatMul[int32], plainMatMul[int64], plainMatMul[uint32], plainMatMul[uint64]})
	})},
	{"Gemm", buildPlainGemm},
}

// intFuncs are an evaluator for the integers of 32 and 64 bits.
type intFuncs struct{ i32, i64, u32, u64 evalFunc }

// byNumber runs the function for the element type of input 0.
func byNumber(c *call, float evalFunc, ints intFuncs) error {
	switch c.raw(0).DType {
	case tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16:
		return float(c)
	case tensor.Int32:
		return ints.i32(c)
	case tensor.Int64:
		return ints.i64(c)
	case tensor.Uint32:
		return ints.u32(c)
	case tensor.Uint64:
		return ints.u64(c)
	}
	return badType(0, c.raw(0).DType)
}

// sameTypes demands that every input has the type of the first.
func (c *call) sameTypes() error {
	for i := range c.ins {
		if t := c.raw(i); t != nil && t.DType != c.raw(0).DType {
			return fmt.Errorf("operands of different types: %s and %s", c.raw(0).Type(), t.Type())
		}
	}
	return nil
}

// plainMatMul is evalMatMul.
func plainMatMul[T number](c *call) error {
	if err := c.sameTypes(); err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	return matMul(tensor.Of[T](out), tensor.Of[T](c.in(0)), tensor.Of[T](c.in(1)), c.in(0).Shape, c.in(1).Shape)
}

// factorShapes returns the shapes of two factors of MatMul with at least two axes: a vector on the left is a row, on the right a
// column.
func factorShapes(as, bs []int) (left, right []int, err error) {
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	if k, rows := as[len(as)-1], bs[len(bs)-2]; k != rows {
		return nil, nil, fmt.Errorf("inner dimensions %d and %d differ", k, rows)
	}
	return as, bs, nil
}

// matMul multiplies the last two axes of a and b, of shapes as and bs, the axes before them broadcast. A vector on the left is a
// row, on the right a column. Products are added in order.
func matMul[T number](dst, a, b []T, as, bs []int) error {
	as, bs, err := factorShapes(as, bs)
	if err != nil {
		return err
	}
	ra, rb := len(as)-2, len(bs)-2
	m, k, n := as[ra], as[ra+1], bs[rb+1]
	lead, err := tensor.Broadcast(as[:ra], bs[:rb])
	if err != nil {
		return err
	}
	sa := alignedStrides(&tensor.Tensor{Shape: as[:ra]}, len(lead), -1)
	sb := alignedStrides(&tensor.Tensor{Shape: bs[:rb]}, len(lead), -1)
	it := newCounter(lead, 0)
	for i := range tensor.Count(lead) {
		left, right := a[it.dot(sa)*m*k:][:m*k], b[it.dot(sb)*k*n:][:k*n]
		for r := range m {
			row := dst[(i*m+r)*n:][:n]
			clear(row)
			for p, x := range left[r*k:][:k] {
				for j, y := range right[p*n:][:n] {
					row[j] += T(x * y)
				}
			}
		}
		it.next()
	}
	return nil
}

func buildPlainGemm(n *graph.Node, _ int64) (evalFunc, error) {
	g := n.Gemm()
	ints := intFuncs{plainGemm[int32](g), plainGemm[int64](g), plainGemm[uint32](g), plainGemm[uint64](g)}
	return func(c *call) error { return byNumber(c, plainGemm[float64](g), ints) }, nil
}

// plainGemm is buildGemm. Integers times alpha or beta other than 1 are computed in float64 and truncated.
func plainGemm[T number](g graph.GemmAttrs) evalFunc {
	return func(c *call) error {
		if err := c.sameTypes(); err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		a, as := matrixOf(tensor.Of[T](c.in(0)), c.in(0).Shape, g.TransA)
		b, bs := matrixOf(tensor.Of[T](c.in(1)), c.in(1).Shape, g.TransB)
		dst := tensor.Of[T](out)
		if err := matMul(dst, a, b, as, bs); err != nil {
			return err
		}
		bias := c.in(2)
		if bias == nil {
			bias = &tensor.Tensor{DType: out.DType, Data: make([]T, 1)}
		}
		add := func(x, y T) T { return x + y }
		if g.Alpha != 1 || g.Beta != 1 {
			alpha, beta := float64(g.Alpha), float64(g.Beta)
			add = func(x, y T) T { return T(float64(alpha*float64(x)) + float64(beta*float64(y))) }
		}
		zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, bias), dst, dst, tensor.Of[T](bias), 1, add)
		return nil
	}
}

// matrixOf returns a matrix, or its transpose, and its shape.
func matrixOf[T number](a []T, shape []int, trans bool) ([]T, []int) {
	if !trans {
		return a, shape // its leading axes are rows
	}
	rows, cols := shape[0], shape[1]
	out := make([]T, len(a))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = a[i*cols+j]
		}
	}
	return out, []int{cols, rows}
}
