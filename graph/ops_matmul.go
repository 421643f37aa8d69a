package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var matmulOps = []OpSpec{
	{Name: "MatMul", Doc: "matrix product, leading axes broadcast", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, c.DType(0)) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 1) }, OutAxis: matmulOut, InAxis: matmulIn, Sums: rowSums(matmulIn)},
	{Name: "Gemm", Doc: "alpha*A'*B' + beta*C", Since: 1, Kind: KindComputing, MinIn: 2, Infer: inferGemm, MACs: gemmMACs,
		OutAxis: gemmOut, InAxis: gemmIn, Sums: rowSums(gemmIn)},
	{Name: "MatMulInteger", Doc: "matrix product of 8-bit integers in int32", Since: 10, Kind: KindComputing, MinIn: 2,
		In:    []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, tensor.Int32) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 1) }},
	{Name: "Einsum", Doc: "sum of products by equation", Since: 12, Kind: KindOther, MinIn: 1, Infer: inferEinsum, MACs: einsumMACs},
}

// matmul infers the product of inputs a and b with numpy's rules for ranks.
func matmul(c *InferCtx, a, b int, d tensor.DType) error {
	as, bs := c.Shape(a), c.Shape(b)
	if as == nil || bs == nil {
		c.SetOut(0, d, nil)
		return nil
	}
	if len(as) == 0 || len(bs) == 0 {
		return fmt.Errorf("a scalar cannot be multiplied as a matrix")
	}
	m, n := append(Shape(nil), as...), append(Shape(nil), bs...)
	if len(as) == 1 {
		m = Shape{{N: 1}, as[0]}
	}
	if len(bs) == 1 {
		n = Shape{bs[0], {N: 1}}
	}
	if _, ok := mergeDim(m[len(m)-1], n[len(n)-2]); !ok {
		return fmt.Errorf("inner dimensions of %s and %s differ", as, bs)
	}
	out, err := Broadcast(m[:len(m)-2], n[:len(n)-2])
	if err != nil {
		return err
	}
	if len(as) > 1 {
		out = append(out, m[len(m)-2])
	}
	if len(bs) > 1 {
		out = append(out, n[len(n)-1])
	}
	c.SetOut(0, d, out)
	return nil
}

func matmulMACs(c *InferCtx, a, b int) Shape {
	as, bs := c.Shape(a), c.Shape(b)
	if len(as) == 0 || len(bs) == 0 {
		return nil
	}
	k, _ := mergeDim(as[len(as)-1], bs[max(0, len(bs)-2)])
	return factors(c.Out(0), k)
}

// gemmDims returns the rows, columns and inner dimension of the product.
func gemmDims(c *InferCtx) (m, n, k Dim, err error) {
	a, b := c.Shape(0), c.Shape(1)
	if len(a) != 2 || len(b) != 2 {
		return m, n, k, fmt.Errorf("shapes %s and %s are not matrices", a, b)
	}
	m, ka := a[0], a[1]
	if c.Node.Gemm().TransA {
		m, ka = ka, m
	}
	kb, n := b[0], b[1]
	if c.Node.Gemm().TransB {
		kb, n = n, kb
	}
	k, ok := mergeDim(ka, kb)
	if !ok {
		err = fmt.Errorf("inner dimensions of %s and %s differ", a, b)
	}
	return m, n, k, err
}

func inferGemm(c *InferCtx) error {
	if c.Shape(0) == nil || c.Shape(1) == nil {
		c.SetOut(0, c.DType(0), nil)
		return nil
	}
	m, n, _, err := gemmDims(c)
	if err != nil {
		return err
	}
	out := Shape{m, n}
	if bias := c.Shape(2); bias != nil {
		sum, err := Broadcast(out, bias)
		if err != nil || len(sum) != 2 || m.Known() && sum[0].N != m.N || n.Known() && sum[1].N != n.N {
			return fmt.Errorf("bias %s does not broadcast to %s", bias, out)
		}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func gemmMACs(c *InferCtx) Shape {
	m, n, k, err := gemmDims(c)
	if err != nil {
		return nil
	}
	return Shape{m, n, k}
}
