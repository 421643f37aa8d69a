package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// qgemmEvals are ONNX Runtime's matrix products of 8-bit integers with results of other types than int32.
var qgemmEvals = []evaluator{
	{op: "QGemm", build: buildQGemm},
	{op: "MatMulIntegerToFloat", build: simple(evalMatMulIntegerToFloat)},
	{op: "DynamicQuantizeMatMul", build: simple(evalDynamicQuantizeMatMul)},
}

// scaled returns x times the scale in input i, which has one for all n columns or one for each.
func (c *call) scaled(x float32, i, n int) ([]float32, error) {
	t := c.in(i)
	if t == nil || t.DType != tensor.Float32 || t.Len() != 1 && t.Len() != n {
		return nil, fmt.Errorf("input %d is not one float32 scale, nor one for each of %d columns", i, n)
	}
	out, v := make([]float32, n), t.F32()
	for j := range out {
		out[j] = x * v[j%len(v)]
	}
	return out, nil
}

// scaleOf returns the only element of input i.
func (c *call) scaleOf(i int) (float32, error) {
	t := c.in(i)
	if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
		return 0, fmt.Errorf("input %d is not one float32 scale", i)
	}
	return t.F32()[0], nil
}

// buildQGemm is alpha * A' * B' + C with the inputs A, scale, zero point, B, scale, zero point, C (int32, on the scale of the
// product), and scale and zero point of the result; float32 without those.
func buildQGemm(n *graph.Node, _ int64) (evalFunc, error) {
	gemm := n.Gemm()
	return func(c *call) error {
		p, err := c.newQGemm(gemm.TransA, gemm.TransB)
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		cols := out.Shape[1]
		whole, err := c.gemmBias(&p, out)
		if err != nil {
			return err
		}
		sa, err := c.scaleOf(1)
		if err != nil {
			return err
		}
		factor, err := c.scaled(gemm.Alpha*sa, 4, cols)
		if err != nil {
			return err
		}
		var result *codeResult
		if c.has(7) {
			g, err := c.grid(out.DType, 7, 8)
			if err != nil {
				return err
			}
			for j := range factor {
				factor[j] /= g.Scale
			}
			result, err = c.gridResult(out, factor, g.ZeroPoint)
			if err != nil {
				return err
			}
		} else if result, err = realResult(out, factor, nil); err != nil {
			return err
		}
		result.add = whole
		return c.multiplyCodes(&p, result)
	}, nil
}

// newQGemm is newCodeProduct for the operands of a Gemm.
func (c *call) newQGemm(transA, transB bool) (p codeProduct, err error) {
	for _, i := range []int{0, 3} {
		if err := c.byteCodes(i); err != nil {
			return p, err
		}
	}
	as, bs := c.raw(0).Shape, c.raw(3).Shape
	a, moved := c.bytesOf(c.in(0))
	rows, cols := as[0], bs[1]
	if transA {
		k, m := as[0], as[1]
		turned := make([]uint8, len(a))
		move{shape: []int{m, k}, dst: []int{k, 1}, src: []int{1, m}}.run(c.parallel, turned, a)
		a, as, rows = turned, []int{m, k}, m
	}
	if transB {
		cols = bs[0]
	}
	p = codeProduct{a: a, as: as, b: 3, transB: transB}
	if p.za, err = c.zeros(2, rows, moved); err != nil {
		return p, err
	}
	p.zb, err = c.zeros(5, cols, c.rightMove(3))
	return p, err
}

// gemmBias gives p the bias of a QGemm, input 6: int32, broadcast to out. One that is not the same in all rows is returned instead.
func (c *call) gemmBias(p *codeProduct, out *tensor.Tensor) (whole []int32, err error) {
	t := c.in(6)
	if t == nil {
		return nil, nil
	}
	if t.DType != tensor.Int32 {
		return nil, badType(6, t.DType)
	}
	if p.bias = tensor.Of[int32](t); t.Len() == out.Shape[1] && (len(t.Shape) < 2 || t.Shape[0] == 1) {
		return nil, nil
	}
	p.bias, whole = nil, make([]int32, out.Len())
	zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, out, t), whole, whole, tensor.Of[int32](t), 1, func(_, y int32) int32 { return y })
	return whole, nil
}

// rowBias returns the float32 bias in input i, one for each of n columns; nil if it is absent.
func (c *call) rowBias(i, n int) ([]float32, error) {
	t := c.in(i)
	if t == nil {
		return nil, nil
	}
	if t.DType != tensor.Float32 || t.Len() != n {
		return nil, fmt.Errorf("bias %s for %d columns", t.Type(), n)
	}
	return t.F32(), nil
}

// multiplyReal writes product * (sa * sb of the column) + bias of the column; sb and bias are inputs.
func (c *call) multiplyReal(p *codeProduct, sa float32, sb, bias int) error {
	out, err := c.out(0)
	if err != nil {
		return err
	}
	n := columnsOf(c.raw(p.b).Shape)
	factor, err := c.scaled(sa, sb, n)
	if err != nil {
		return err
	}
	add, err := c.rowBias(bias, n)
	if err != nil {
		return err
	}
	result, err := realResult(out, factor, add)
	if err != nil {
		return err
	}
	return c.multiplyCodes(p, result)
}

// evalMatMulIntegerToFloat has the inputs a, b, scale of a, scale of b, zero points of both, bias.
func evalMatMulIntegerToFloat(c *call) error {
	p, err := c.newCodeProduct(0, 4, 1, 5)
	if err != nil {
		return err
	}
	sa, err := c.scaleOf(2)
	if err != nil {
		return err
	}
	return c.multiplyReal(&p, sa, 3, 6)
}

// evalDynamicQuantizeMatMul has the inputs a (float32), b, scale of b, zero point of b, bias. a is quantized as
// DynamicQuantizeLinear does.
func evalDynamicQuantizeMatMul(c *call) error {
	x := c.in(0)
	if x.DType != tensor.Float32 {
		return badType(0, x.DType)
	}
	if err := c.byteCodes(1); err != nil {
		return err
	}
	g, err := c.dynamicGrid(x.F32())
	if err != nil {
		return err
	}
	mem := &c.run.codes
	mem.left = resize(mem.left, x.Len())
	if !c.quantizeBytes(mem.left, x.F32(), g) {
		quantizeInto(c, mem.left, x.F32(), g)
	}
	p := codeProduct{a: mem.left, as: x.Shape, za: []int32{g.ZeroPoint}, b: 1}
	if p.zb, err = c.matrixZeros(1, 3, true, c.rightMove(1)); err != nil {
		return err
	}
	return c.multiplyReal(&p, g.Scale, 2, 4)
}
