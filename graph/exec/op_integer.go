package exec

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// integerEvals multiply 8-bit integers and accumulate in int32, which wraps. They are written for exactness, not for speed:
// models that use them are imported and run as programs.
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
		if axis < 0 {
			axis += len(t.Shape)
		}
		if axis < 0 || axis >= len(t.Shape) || len(zeros) != t.Shape[axis] {
			return nil, fmt.Errorf("%d zero points for input %d, %s", len(zeros), i, t.Type())
		}
		outer, n, inner = blocks(t.Shape, axis)
	}
	for k := range outer * n * inner {
		out[k] = q[k] - zeros[k/inner%n]
	}
	return out, nil
}

// matMulInt32 multiplies the last two axes of a and b, the axes before them broadcast.
func matMulInt32(dst, a, b []int32, as, bs []int) error {
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	ra, rb := len(as)-2, len(bs)-2
	m, k, n := as[ra], as[ra+1], bs[rb+1]
	if bs[rb] != k {
		return fmt.Errorf("inner dimensions %d and %d differ", k, bs[rb])
	}
	batch, err := graph.Broadcast(graph.Static(as[:ra]...), graph.Static(bs[:rb]...))
	if err != nil {
		return err
	}
	lead, _ := batch.Ints()
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
					row[j] += x * y
				}
			}
		}
		it.next()
	}
	return nil
}

func evalMatMulInteger(c *call) error {
	a, err := c.centred(0, 2, -2)
	if err != nil {
		return err
	}
	b, err := c.centred(1, 3, -1)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	return matMulInt32(tensor.Of[int32](out), a, b, c.in(0).Shape, c.in(1).Shape)
}

// evalQLinearMatMul has the inputs a, scale, zero point, b, scale, zero point, and scale and zero point of the result.
func evalQLinearMatMul(c *call) error {
	a, err := c.centred(0, 2, -2)
	if err != nil {
		return err
	}
	b, err := c.centred(3, 5, -1)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	acc := make([]int32, out.Len())
	if err := matMulInt32(acc, a, b, c.in(0).Shape, c.in(3).Shape); err != nil {
		return err
	}
	n := out.Shape[len(out.Shape)-1]
	return c.requantize(out, acc, [3]int{1, 4, 6}, 7, func(i int) int { return i % n })
}

// requantize writes clamp(round(acc * (sa*sb/sy)) + zero point), computed in float32. scales are the inputs that hold sa, sb
// and sy; sb may have one element per channel.
func (c *call) requantize(out *tensor.Tensor, acc []int32, scales [3]int, zp int, channel func(i int) int) error {
	for _, i := range scales {
		if t := c.in(i); t.DType != tensor.Float32 || i != scales[1] && t.Len() != 1 {
			return fmt.Errorf("a scale of type %s is not supported", t.Type())
		}
	}
	zeros, err := zeroPoints(c.in(zp), 1)
	if err != nil {
		return err
	}
	limits, ok := bounds[out.DType]
	if !ok {
		return fmt.Errorf("quantizing to %s is not supported", out.DType)
	}
	sa, sb, sy := c.in(scales[0]).F32()[0], c.in(scales[1]).F32(), c.in(scales[2]).F32()[0]
	g := qmath.Grid{Scale: 1, ZeroPoint: zeros[0], QMin: limits[0], QMax: limits[1]}
	q := make([]int32, len(acc))
	for i, v := range acc {
		s := sb[0]
		if len(sb) > 1 {
			s = sb[channel(i)]
		}
		q[i] = g.Quantize(float32(v) * (float32(sa*s) / sy))
	}
	packInts(out, q)
	return nil
}

// convInt32 convolves row-major x with w.
func convInt32(n *graph.Node, x, w []int32, xs, ws []int, bias []int32) ([]int32, error) {
	geo, err := graph.ConvGeometry(n, graph.Static(xs...), graph.Static(ws...))
	if err != nil {
		return nil, err
	}
	s, err := window(geo, xs[0], xs[1], ws[0])
	if err != nil {
		return nil, err
	}
	if bias != nil && len(bias) != s.M {
		return nil, fmt.Errorf("bias of %d elements for %d channels", len(bias), s.M)
	}
	if s = s.Full(); s.D > 1 || s.KD > 1 {
		return nil, errors.New("three spatial dimensions are not supported")
	}
	out := make([]int32, s.OutLen())
	for i := range s.N * s.M {
		plane := out[i*s.OutH*s.OutW:][:s.OutH*s.OutW]
		img, m := i/s.M, i%s.M
		for p := range plane {
			acc := int32(0)
			if bias != nil {
				acc = bias[m]
			}
			plane[p] = acc + windowSum(&s, x, w, img, m, p/s.OutW, p%s.OutW)
		}
	}
	return out, nil
}

// windowSum is the sum of one window of image img for output channel m.
func windowSum(s *kernels.ConvShape, x, w []int32, img, m, y0, x0 int) (acc int32) {
	cg := s.C / s.Group
	first := m / (s.M / s.Group) * cg
	for ch := range cg {
		for kh := range s.KH {
			y := y0*s.StrideH - s.PadTop + kh*s.DilH
			if y < 0 || y >= s.H {
				continue
			}
			for kw := range s.KW {
				if px := x0*s.StrideW - s.PadLeft + kw*s.DilW; px >= 0 && px < s.W {
					acc += x[((img*s.C+first+ch)*s.H+y)*s.W+px] * w[((m*cg+ch)*s.KH+kh)*s.KW+kw]
				}
			}
		}
	}
	return acc
}

func evalConvInteger(c *call) error {
	x, err := c.centred(0, 2, 1)
	if err != nil {
		return err
	}
	w, err := c.centred(1, 3, 0)
	if err != nil {
		return err
	}
	acc, err := convInt32(c.node, x, w, c.in(0).Shape, c.in(1).Shape, nil)
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
	x, err := c.centred(0, 2, 1)
	if err != nil {
		return err
	}
	w, err := c.centred(3, 5, 0)
	if err != nil {
		return err
	}
	var bias []int32
	if c.has(8) {
		bias = slices.Clone(tensor.Of[int32](c.in(8)))
	}
	acc, err := convInt32(c.node, x, w, c.in(0).Shape, c.in(3).Shape, bias)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	plane, m := tensor.Count(out.Shape[2:]), out.Shape[1]
	return c.requantize(out, acc, [3]int{1, 4, 6}, 7, func(i int) int { return i / plane % m })
}
