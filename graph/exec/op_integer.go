package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// integerEvals multiply integers and accumulate in int32, which wraps: 8-bit codes on the integer kernels, others in plain loops.
var integerEvals = []evaluator{
	{"MatMulInteger", simple(evalMatMulInteger)},
	{"QLinearMatMul", simple(evalQLinearMatMul)},
	{"ConvInteger", simple(evalConvInteger)},
	{"QLinearConv", simple(evalQLinearConv)},
}

// centred returns the elements of input i minus its zero point, input zp: one for all, or one per index of the given axis.
func (c *call) centred(i, zp, axis int) ([]int32, error) {
	t := c.in(i)
	q, err := unpackInts(t)
	if err != nil || !c.has(zp) {
		return q, err
	}
	zeros, err := unpackInts(c.in(zp))
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(q))
	outer, n, inner := 1, 1, len(q)
	if len(zeros) != 1 {
		axis, ok := graph.Axis(axis, len(t.Shape))
		if !ok || len(zeros) != t.Shape[axis] {
			return nil, fmt.Errorf("%d zero points for input %d, %s", len(zeros), i, t.Type())
		}
		outer, n, inner = blocks(t.Shape, axis)
	}
	for k := range outer * n * inner {
		out[k] = q[k] - zeros[k/inner%n]
	}
	return out, nil
}

func evalMatMulInteger(c *call) error {
	p, err := c.newCodeProduct(0, 2, 1, 3)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	return c.multiplyCodes(&p, rawResult(out, columnsOf(c.raw(1).Shape)))
}

// columnsOf is how many columns the right-hand side of a MatMul has.
func columnsOf(shape []int) int {
	if len(shape) < 2 {
		return 1
	}
	return shape[len(shape)-1]
}

// evalQLinearMatMul has the inputs a, scale, zero point, b, scale, zero point, and scale and zero point of the result.
func evalQLinearMatMul(c *call) error {
	if c.in(0).DType == tensor.Float32 || c.in(3).DType == tensor.Float32 || c.outDType(0) == tensor.Float32 {
		return floatQLinearMatMul(c)
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	scales := [3]int{1, 4, 6}
	if isCode(c.raw(0).DType) && isCode(c.raw(3).DType) && isCode(out.DType) {
		p, err := c.newCodeProduct(0, 2, 3, 5)
		if err != nil {
			return err
		}
		result, err := c.requantized(out, columnsOf(c.raw(3).Shape), scales, 7)
		if err != nil {
			return err
		}
		return c.multiplyCodes(&p, result)
	}
	a, err := c.centred(0, 2, -2)
	if err != nil {
		return err
	}
	b, err := c.centred(3, 5, -1)
	if err != nil {
		return err
	}
	acc := make([]int32, out.Len())
	if err := matMul(acc, a, b, c.in(0).Shape, c.in(3).Shape); err != nil {
		return err
	}
	n := columnsOf(c.in(3).Shape)
	return c.requantize(out, acc, scales, 7, func(i int) int { return i % n })
}

// floatQLinearMatMul is evalQLinearMatMul where a, b or the result are floats of 8 bits, which are float32 here: the inputs are
// widened, and who did that rounds the result. Sums run in float64; there is one scale per tensor.
func floatQLinearMatMul(c *call) error {
	var factors [2][]float64
	for k, i := range []int{0, 3} {
		zp := c.f64(i + 2)
		if c.in(i+1).Len() != 1 || len(zp) != 1 {
			return fmt.Errorf("a scale of type %s is not supported", c.in(i+1).Type())
		}
		factors[k] = slices.Clone(c.f64(i))
		for j := range factors[k] {
			factors[k][j] -= zp[0]
		}
	}
	zp := c.in(7)
	if c.in(6).Len() != 1 || zp.Len() != 1 {
		return fmt.Errorf("a scale of type %s is not supported", c.in(6).Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	acc := make([]float64, out.Len())
	if err := matMul(acc, factors[0], factors[1], c.in(0).Shape, c.in(3).Shape); err != nil {
		return err
	}
	s := c.f64(1)[0] * c.f64(4)[0] / c.f64(6)[0]
	if dst := out.F32(); dst != nil {
		for i, v := range acc {
			dst[i] = float32(v*s + c.f64(7)[0])
		}
		return nil
	}
	limits, ok := bounds[out.DType]
	if !ok {
		return fmt.Errorf("quantizing to %s is not supported", out.DType)
	}
	zero, err := zeroPoints(zp, 1)
	if err != nil {
		return err
	}
	g := qmath.Grid{Scale: 1, ZeroPoint: zero[0], QMin: limits[0], QMax: limits[1]}
	packInts(out, mapSlice(acc, func(v float64) int32 { return g.Quantize(float32(v * s)) }))
	return nil
}

// factors returns sa*sb/sy for each of n columns or channels, computed in float32. scales are the inputs that hold sa, sb and sy; sb
// may have one element per channel.
func (c *call) factors(scales [3]int, n int) ([]float32, error) {
	for _, i := range scales {
		if t := c.in(i); t.DType != tensor.Float32 || t.Len() != 1 && (i != scales[1] || t.Len() != n) {
			return nil, fmt.Errorf("a scale of type %s is not supported", t.Type())
		}
	}
	sa, sb, sy := c.in(scales[0]).F32()[0], c.in(scales[1]).F32(), c.in(scales[2]).F32()[0]
	out := make([]float32, n)
	for j := range out {
		out[j] = float32(sa*sb[j%len(sb)]) / sy
	}
	return out, nil
}

// requantized is the result clamp(round(acc * (sa*sb/sy)) + zero point) of n columns; see factors.
func (c *call) requantized(out *tensor.Tensor, n int, scales [3]int, zp int) (*codeResult, error) {
	f, err := c.factors(scales, n)
	if err != nil {
		return nil, err
	}
	zero, err := zeroPoints(c.in(zp), 1)
	if err != nil {
		return nil, err
	}
	return c.gridResult(out, f, zero[0])
}

// requantize is requantized for codes of any type, from accumulators.
func (c *call) requantize(out *tensor.Tensor, acc []int32, scales [3]int, zp int, channel func(i int) int) error {
	zeros, err := zeroPoints(c.in(zp), 1)
	if err != nil {
		return err
	}
	limits, ok := bounds[out.DType]
	if !ok {
		return fmt.Errorf("quantizing to %s is not supported", out.DType)
	}
	f, err := c.factors(scales, max(1, c.in(scales[1]).Len()))
	if err != nil {
		return err
	}
	g := qmath.Grid{Scale: 1, ZeroPoint: zeros[0], QMin: limits[0], QMax: limits[1]}
	q := make([]int32, len(acc))
	for i, v := range acc {
		k := 0
		if len(f) > 1 {
			k = channel(i)
		}
		q[i] = g.Quantize(float32(v) * f[k])
	}
	packInts(out, q)
	return nil
}

// convInt32 convolves row-major x with w.
func convInt32(c *call, x, w []int32, xs, ws []int, bias []int32) ([]int32, error) {
	geo, err := graph.ConvGeometry(c.node, graph.Static(xs...), graph.Static(ws...))
	if err != nil {
		return nil, err
	}
	if bias != nil && len(bias) != ws[0] {
		return nil, fmt.Errorf("bias of %d elements for %d channels", len(bias), ws[0])
	}
	size, err := checkedLen(c.outShape(0))
	if err != nil {
		return nil, err
	}
	out := make([]int32, size)
	convolve(c, geo, out, x, w, bias, xs[1], ws[0])
	return out, nil
}

func evalConvInteger(c *call) error {
	if fast, err := c.convCodes(2, 1, 3, nil, func() (*codeResult, error) {
		out, err := c.outIn(0, tensor.ChannelsLast)
		return rawResult(out, c.raw(1).Shape[0]), err
	}); fast || err != nil {
		return err
	}
	x, err := c.centred(0, 2, 1)
	if err != nil {
		return err
	}
	w, err := c.centred(1, 3, 0)
	if err != nil {
		return err
	}
	acc, err := convInt32(c, x, w, c.in(0).Shape, c.in(1).Shape, nil)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	copy(tensor.Of[int32](out), acc)
	return nil
}

// evalQLinearConv has the inputs x, scale, zero point, w, scale, zero point, scale and zero point of the result, bias (int32 in
// units of the product of the scales of x and w).
func evalQLinearConv(c *call) error {
	var bias []int32
	if t := c.in(8); t != nil {
		if t.DType != tensor.Int32 {
			return badType(8, t.DType)
		}
		bias = tensor.Of[int32](t)
	}
	scales := [3]int{1, 4, 6}
	if isCode(c.outDType(0)) {
		if fast, err := c.convCodes(2, 3, 5, bias, func() (*codeResult, error) {
			out, err := c.outIn(0, tensor.ChannelsLast)
			if err != nil {
				return nil, err
			}
			return c.requantized(out, c.raw(3).Shape[0], scales, 7)
		}); fast || err != nil {
			return err
		}
	}
	x, err := c.centred(0, 2, 1)
	if err != nil {
		return err
	}
	w, err := c.centred(3, 5, 0)
	if err != nil {
		return err
	}
	acc, err := convInt32(c, x, w, c.in(0).Shape, c.in(3).Shape, bias)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	plane, m := tensor.Count(out.Shape[2:]), out.Shape[1]
	return c.requantize(out, acc, scales, 7, func(i int) int { return i / plane % m })
}
