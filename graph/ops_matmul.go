package graph

import (
	"fmt"
	"slices"

	"qwb/graph/tensor"
)

var matmulOps = []OpSpec{
	{Name: "MatMul", Doc: "matrix product, leading axes broadcast", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, c.DType(0)) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 1) }, OutAxis: matmulOut, InAxis: matmulIn, Sums: rowSums(matmulIn)},
	{Name: "Gemm", Doc: "alpha*A'*B' + beta*C; the leading axes of A are rows", Since: 1, Kind: KindComputing, MinIn: 2, Infer: inferGemm,
		MACs:    gemmMACs,
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

// gemmDims returns the rows, columns and inner dimension of the product. In ONNX A is a matrix. Here it may have more axes before the
// inner one, as the left factor of MatMul, so that a linear layer with its bias is one operator whatever the rank; package onnx writes
// MatMul and Add for it.
func gemmDims(c *InferCtx) (m Shape, n, k Dim, err error) {
	a, b := c.Shape(0), c.Shape(1)
	if len(a) < 2 || len(b) != 2 || len(a) > 2 && c.Node.Gemm().TransA {
		return m, n, k, fmt.Errorf("shapes %s and %s are not matrices", a, b)
	}
	m, ka := a[:len(a)-1], a[len(a)-1]
	if c.Node.Gemm().TransA {
		m, ka = a[1:], a[0]
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

// GemmRank is how many axes the data of a Gemm have, 0 where that is not known: more than 2 make it a MatMul and an Add in ONNX.
func (g *Graph) GemmRank(n *Node) int {
	return max(len(g.values[n.Inputs[0]].Shape), len(g.values[n.Outputs[0]].Shape))
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
	out := append(slices.Clone(m), n)
	if bias := c.Shape(2); bias != nil {
		sum, err := Broadcast(out, bias)
		if err != nil || !slices.EqualFunc(sum, out, func(s, o Dim) bool { return !o.Known() || s.N == o.N }) {
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
	return append(slices.Clone(m), n, k)
}
