package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// qgemmEvals are ONNX Runtime's matrix products of 8-bit integers with results of other types than int32.
var qgemmEvals = []evaluator{
	{op: "QGemm", build: buildQGemm},
	{op: "MatMulIntegerToFloat", build: simple(evalMatMulIntegerToFloat)},
	{op: "DynamicQuantizeMatMul", build: simple(evalDynamicQuantizeMatMul)},
}

// scales returns the elements of input i, which has one for all n columns or one for each.
func (c *call) scales(i, n int) (func(column int) float32, error) {
	t := c.in(i)
	if t == nil || t.DType != tensor.Float32 || t.Len() != 1 && t.Len() != n {
		return nil, fmt.Errorf("input %d is not one float32 scale, nor one for each of %d columns", i, n)
	}
	if v := t.F32(); len(v) > 1 {
		return func(column int) float32 { return v[column] }, nil
	} else {
		return func(int) float32 { return v[0] }, nil
	}
}

// buildQGemm is alpha * A' * B' + C with the inputs A, scale, zero point, B, scale, zero point, C (int32, on the scale of the
// product), and scale and zero point of the result; float32 without those.
func buildQGemm(n *graph.Node, _ int64) (evalFunc, error) {
	alpha := n.AttrFloat("alpha", 1)
	transA, transB := n.AttrInt("transA", 0) != 0, n.AttrInt("transB", 0) != 0
	p, err := qmath.ProfileNamed("ort")
	return func(c *call) error {
		a, err := c.centred(0, 2, 0)
		if err != nil {
			return err
		}
		columnAxis := 1
		if transB {
			columnAxis = 0
		}
		b, err := c.centred(3, 5, columnAxis)
		if err != nil {
			return err
		}
		left, as := matrixOf(a, c.in(0).Shape, transA)
		right, bs := matrixOf(b, c.in(3).Shape, transB)
		out, err := c.out(0)
		if err != nil {
			return err
		}
		acc := make([]int32, out.Len())
		if err := matMul(acc, left, right, as, bs); err != nil {
			return err
		}
		if bias := c.in(6); bias != nil {
			if bias.DType != tensor.Int32 {
				return badType(6, bias.DType)
			}
			zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, bias), acc, acc, bias.Integers(), 1, func(x, y int32) int32 { return x + y })
		}
		sa, err := c.scales(1, 1)
		if err != nil {
			return err
		}
		sb, err := c.scales(4, bs[1])
		if err != nil {
			return err
		}
		return c.finishQGemm(p, out, acc, func(column int) float32 { return float32(float32(alpha*sa(0)) * sb(column)) })
	}, err
}

// finishQGemm writes the accumulators on the grid of inputs 7 and 8, or as float32 where there is none.
func (c *call) finishQGemm(p qmath.Profile, out *tensor.Tensor, acc []int32, scale func(column int) float32) error {
	n := out.Shape[1]
	if !c.has(7) {
		for i, v := range acc {
			out.F32()[i] = float32(v) * scale(i%n)
		}
		return nil
	}
	g, err := c.grid(out.DType, 7, 8)
	if err != nil {
		return err
	}
	for i, v := range acc {
		acc[i] = p.Requantize(v, qmath.Multiplier{Scale: scale(i%n) / g.Scale}, g.ZeroPoint, g.QMin, g.QMax)
	}
	packInts(out, acc)
	return nil
}

// accumulated writes float32(acc) * (sa * sb of the column) + bias of the column; the bias is input i, if present.
func (c *call) accumulated(out *tensor.Tensor, acc []int32, sa float32, sb func(column int) float32, i int) error {
	n := out.Shape[len(out.Shape)-1]
	bias := make([]float32, n)
	if t := c.in(i); t != nil {
		if t.DType != tensor.Float32 || t.Len() != n {
			return fmt.Errorf("bias %s for %d columns", t.Type(), n)
		}
		bias = t.F32()
	}
	dst := out.F32()
	if dst == nil {
		return fmt.Errorf("a result of type %s is not supported", out.DType)
	}
	for k, v := range acc {
		dst[k] = qmath.Channel{X: sa, W: sb(k % n), Bias: bias[k%n]}.Accumulated(v)
	}
	return nil
}

// evalMatMulIntegerToFloat has the inputs a, b, scale of a, scale of b, zero points of both, bias.
func evalMatMulIntegerToFloat(c *call) error {
	a, err := c.centred(0, 4, -2)
	if err != nil {
		return err
	}
	b, err := c.centred(1, 5, -1)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	acc := make([]int32, out.Len())
	if err := matMul(acc, a, b, c.in(0).Shape, c.in(1).Shape); err != nil {
		return err
	}
	sa, err := c.scales(2, 1)
	if err != nil {
		return err
	}
	sb, err := c.scales(3, out.Shape[len(out.Shape)-1])
	if err != nil {
		return err
	}
	return c.accumulated(out, acc, sa(0), sb, 6)
}

// evalDynamicQuantizeMatMul has the inputs a (float32), b, scale of b, zero point of b, bias. a is quantized as
// DynamicQuantizeLinear does.
func evalDynamicQuantizeMatMul(c *call) error {
	x := c.in(0)
	if x.DType != tensor.Float32 {
		return badType(0, x.DType)
	}
	g, err := dynamicGrid(x.F32())
	if err != nil {
		return err
	}
	a := make([]int32, x.Len())
	for i, v := range x.F32() {
		a[i] = g.Quantize(v) - g.ZeroPoint
	}
	b, err := c.centred(1, 3, -1)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	acc := make([]int32, out.Len())
	if err := matMul(acc, a, b, x.Shape, c.in(1).Shape); err != nil {
		return err
	}
	sb, err := c.scales(2, out.Shape[len(out.Shape)-1])
	if err != nil {
		return err
	}
	return c.accumulated(out, acc, g.Scale, sb, 4)
}
