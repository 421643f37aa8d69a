package graph

import "qwb/graph/tensor"

// Operators that ONNX Runtime's optimizer makes by fusing others.
var fusedOps = []OpSpec{
	inDomain("com.microsoft", OpSpec{Name: "FusedConv", Doc: "Conv, plus z, with an activation", Since: 1, Kind: KindComputing,
		MinIn: 2, Infer: inferConv, MACs: convMACs}),
	inDomain("com.microsoft", OpSpec{Name: "FusedGemm", Doc: "Gemm with an activation", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferGemm, MACs: gemmMACs}),
	inDomain("com.microsoft", OpSpec{Name: "FusedMatMul", Doc: "alpha * A' * B'", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferFusedMatMul, MACs: fusedMatMulMACs}),
	inDomain("com.microsoft", OpSpec{Name: "DynamicQuantizeMatMul", Doc: "MatMul of x, quantized by its range, and integers",
		Since: 1, Kind: KindComputing, MinIn: 3, In: []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, tensor.Float32) },
		MACs:  func(c *InferCtx) int64 { return matmulMACs(c, 0, 1) }}),
	inDomain("com.microsoft", OpSpec{Name: "MatMulIntegerToFloat", Doc: "MatMul of integers, dequantized", Since: 1,
		Kind: KindComputing, MinIn: 4, In: []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, c.DType(2)) },
		MACs:  func(c *InferCtx) int64 { return matmulMACs(c, 0, 1) }}),
}

// transposedCtx shows the inputs of a FusedMatMul as those of a MatMul.
func transposedCtx(c *InferCtx) *InferCtx {
	inner := *c
	inner.in = append([]InferInput(nil), c.in...)
	for i, attr := range []string{"transA", "transB"} {
		if s := c.Shape(i); c.Node.AttrInt(attr, 0) != 0 && len(s) > 1 {
			t := append(Shape{}, s...)
			t[len(t)-1], t[len(t)-2] = t[len(t)-2], t[len(t)-1]
			inner.in[i].Shape = t
		}
	}
	return &inner
}

// inferFusedMatMul: transBatchA and transBatchB, which move the batch axes, are left open.
func inferFusedMatMul(c *InferCtx) error {
	if c.Node.AttrInt("transBatchA", 0) != 0 || c.Node.AttrInt("transBatchB", 0) != 0 {
		c.SetOut(0, c.DType(0), nil)
		return nil
	}
	return matmul(transposedCtx(c), 0, 1, c.DType(0))
}

func fusedMatMulMACs(c *InferCtx) int64 { return matmulMACs(transposedCtx(c), 0, 1) }
