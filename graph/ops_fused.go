package graph

import (
	"fmt"
	"slices"

	"qwb/graph/tensor"
)

// Operators that ONNX Runtime's optimizer makes by fusing others.
var fusedOps = []OpSpec{
	microsoft(OpSpec{Name: "FusedConv", Doc: "Conv, plus z, with an activation", Since: 1, Kind: KindComputing,
		MinIn: 2, Infer: inferConv, MACs: convMACs}),
	microsoft(OpSpec{Name: "FusedGemm", Doc: "Gemm with an activation", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferGemm, MACs: gemmMACs}),
	microsoft(OpSpec{Name: "FusedMatMul", Doc: "alpha * A' * B'", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferFusedMatMul, MACs: fusedMatMulMACs}),
	microsoft(OpSpec{Name: "DynamicQuantizeMatMul", Doc: "MatMul of x, quantized by its range, and integers",
		Since: 1, Kind: KindComputing, MinIn: 3, In: []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, tensor.Float32) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 1) }}),
	microsoft(OpSpec{Name: "MatMulIntegerToFloat", Doc: "MatMul of integers, dequantized", Since: 1,
		Kind: KindComputing, MinIn: 4, In: []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 1, c.DType(2)) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 1) }}),
	microsoft(OpSpec{Name: "MatMulNBits", Doc: "MatMul with weights of a few bits, scaled by blocks", Since: 1,
		Kind: KindComputing, MinIn: 3, In: []Socket{SocketData, SocketData, SocketFloat}, Infer: inferMatMulNBits,
		MACs: matMulNBitsMACs}),
	microsoft(OpSpec{Name: "EmbedLayerNormalization", Doc: "LayerNormalization of the sum of embeddings", Since: 1,
		Kind: KindNormalization, MinIn: 1, In: []Socket{SocketIndex, SocketIndex, SocketData, SocketData, SocketData, SocketFloat},
		Infer: inferEmbedNorm}),
}

// inferMatMulNBits: the last axis of A, K elements, becomes N.
func inferMatMulNBits(c *InferCtx) error {
	x, n, k := c.Shape(0), c.Node.AttrInt("N", 0), c.Node.AttrInt("K", 0)
	if n < 1 || k < 1 {
		return fmt.Errorf("attributes N %d, K %d", n, k)
	}
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	if len(x) == 0 {
		return fmt.Errorf("input A has shape %s", x)
	}
	if _, ok := mergeDim(x[len(x)-1], Dim{N: k}); !ok {
		return fmt.Errorf("input A has shape %s, K is %d", x, k)
	}
	c.SetOut(0, c.DType(0), append(slices.Clone(x[:len(x)-1]), Dim{N: n}))
	return nil
}

func matMulNBitsMACs(c *InferCtx) Shape {
	return factors(c.Shape(0), Dim{N: c.Node.AttrInt("N", 0)})
}

// inferEmbedNorm: ids are [batch, length], the words' table [vocabulary, size].
func inferEmbedNorm(c *InferCtx) error {
	for _, i := range []int{2, 3, 5, 6} { // the segments between them may be absent
		if !c.Has(i) {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	ids, words := c.Shape(0), c.Shape(2)
	c.SetOut(0, c.DType(2), nil)
	c.SetOut(1, tensor.Int32, nil)
	c.SetOut(2, c.DType(2), nil)
	if ids == nil || words == nil {
		return nil
	}
	if len(ids) != 2 || len(words) != 2 {
		return fmt.Errorf("indices %s and table %s", ids, words)
	}
	sum := Shape{ids[0], ids[1], words[1]}
	c.SetOut(0, c.DType(2), sum)
	c.SetOut(1, tensor.Int32, Shape{ids[0]})
	c.SetOut(2, c.DType(2), sum)
	return nil
}

// FusedMatMulAxes returns the permutation that com.microsoft's FusedMatMul applies to the axes of an operand before it
// multiplies. With batch, the first axis moves behind the batch axes; then, with trans, the last two are exchanged. It returns
// nil if nothing moves.
func FusedMatMulAxes(rank int, batch, trans bool) []int {
	if batch = batch && rank > 2; rank < 2 || !batch && !trans {
		return nil
	}
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	if batch {
		copy(axes, axes[1:rank-1])
		axes[rank-2] = 0
	}
	if trans {
		axes[rank-1], axes[rank-2] = axes[rank-2], axes[rank-1]
	}
	return axes
}

// transposedCtx shows the inputs of a FusedMatMul as those of a MatMul.
func transposedCtx(c *InferCtx) *InferCtx {
	inner := *c
	inner.in = append([]InferInput(nil), c.in...)
	for i, side := range []string{"A", "B"} {
		s := c.Shape(i)
		axes := FusedMatMulAxes(len(s), c.Node.AttrInt("transBatch"+side, 0) != 0, c.Node.AttrInt("trans"+side, 0) != 0)
		if axes == nil {
			continue
		}
		t := make(Shape, len(s))
		for k, a := range axes {
			t[k] = s[a]
		}
		inner.in[i].Shape = t
	}
	return &inner
}

func inferFusedMatMul(c *InferCtx) error { return matmul(transposedCtx(c), 0, 1, c.DType(0)) }

func fusedMatMulMACs(c *InferCtx) Shape { return matmulMACs(transposedCtx(c), 0, 1) }
