package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// quantEvals are the ONNX operators between float32 and integers; qmath does the arithmetic.
var quantEvals = []evaluator{
	{"QuantizeLinear", buildQuantize},
	{"DequantizeLinear", buildDequantize},
	{"DynamicQuantizeLinear", simple(evalDynamicQuantize)},
}

// bounds are the integer ranges of the types that can be quantized to.
var bounds = map[tensor.DType][2]int32{
	tensor.Uint8: {0, 255}, tensor.Int8: {-128, 127}, tensor.Uint16: {0, 65535}, tensor.Int16: {-32768, 32767},
	tensor.Uint4: {0, 15}, tensor.Int4: {-8, 7}, tensor.Uint2: {0, 3}, tensor.Int2: {-2, 1},
}

// zeroPoints returns the elements of an optional zero point as int32, zeros if it is absent.
func zeroPoints(t *tensor.Tensor, n int) ([]int32, error) {
	if t == nil {
		return make([]int32, n), nil
	}
	z, err := unpackInts(t)
	if err == nil && len(z) != n {
		err = fmt.Errorf("%d zero points for %d scales", len(z), n)
	}
	return z, err
}

// unpackInts returns the elements of a quantized tensor as int32.
func unpackInts(t *tensor.Tensor) ([]int32, error) {
	switch d := readable(t).(type) {
	case []int8:
		return convertTo[int32](d), nil
	case []uint8:
		return convertTo[int32](d), nil
	case []int16:
		return convertTo[int32](d), nil
	case []uint16:
		return convertTo[int32](d), nil
	case []int32:
		return d, nil
	}
	return nil, fmt.Errorf("quantized type %s is not supported", t.DType)
}

// packInts writes int32 as elements of t's type.
func packInts(t *tensor.Tensor, v []int32) {
	switch d := t.Data.(type) {
	case []int8:
		castNumbers(d, v)
	case []int16:
		castNumbers(d, v)
	case []int32:
		copy(d, v)
	case []uint16:
		castNumbers(d, v)
	case []uint8:
		if !isPacked(t.DType) {
			castNumbers(d, v)
			return
		}
		packInto(d, t.DType, convertTo[uint8](v))
	}
}

// buildQuantize is clamp(round_half_even(x / scale) + zero point), or the float of 8 or 4 bits nearest to x / scale + zero point.
// The division is one in attribute precision, by default the type of the scale: a true float32 division, its result rounded to it.
func buildQuantize(n *graph.Node, version int64) (evalFunc, error) {
	axis, block := n.Axis(), n.Quantize().Block
	precision := tensor.DType(n.AttrInt("precision", 0))
	if _, ok := precisions[precision]; !ok && precision != tensor.Undefined {
		return nil, fmt.Errorf("precision %s is not supported", precision)
	}
	mode := castMode{clip: n.AttrInt("saturate", 1) != 0}
	return func(c *call) error {
		x, scale, zp := c.raw(0), c.in(1), c.in(2)
		if !quantizable[x.DType] {
			return badType(0, x.DType)
		}
		if !quantizable[scale.DType] && scale.DType != tensor.Float8E8M0 {
			return badType(1, scale.DType)
		}
		division := precisions[scale.DType]
		if precision != tensor.Undefined {
			division = precisions[precision]
		}
		out := c.outDType(0)
		limits, integer := bounds[out]
		if _, ok := minifloats[out]; !integer && (!ok || out == tensor.Float16 || out == tensor.BFloat16) {
			return fmt.Errorf("quantizing to %s is not supported", out)
		}
		sp, err := spreadOf(x.Shape, scale, axis, block)
		if err != nil {
			return err
		}
		scales := numbersOf[float32](scale)
		if !integer || division != qmath.FP32 || isPacked(out) {
			x = c.in(0)
		}
		src := numbersOf[float32](x)
		if !integer {
			return quantizeFloats(c, x, quotients(src, scales, sp, division), zp, len(scales), sp, mode)
		}
		zps, err := zeroPoints(zp, scale.Len())
		if err != nil {
			return err
		}
		if division != qmath.FP32 {
			src = quotients(src, scales, sp, division)
			scales = make([]float32, len(scales))
			fill(scales, 1)
		}
		return quantizeInts(c, x, src, sp, func(k int) qmath.Grid {
			return qmath.Grid{Scale: scales[k], ZeroPoint: zps[k], QMin: limits[0], QMax: limits[1]}
		})
	}, nil
}

// quantizable are the types that are quantized, and those of scales beside f8e8m0.
var quantizable = map[tensor.DType]bool{tensor.Float32: true, tensor.Float16: true, tensor.BFloat16: true, tensor.Int32: true}

// precisions are those of the division by scales of a type; FP32 unless listed.
var precisions = map[tensor.DType]qmath.Precision{tensor.Float32: qmath.FP32, tensor.Float16: qmath.FP16, tensor.BFloat16: qmath.BF16}

// quotients returns row-major elements divided by their scales.
func quotients(src, scales []float32, sp spread, p qmath.Precision) []float32 {
	out := make([]float32, len(src))
	sp.each(len(src), func(at, n, k int) {
		for i := at; i < at+n; i++ {
			out[i] = p.Round(src[i] / scales[k])
		}
	})
	return out
}

// quantizeFloats writes row-major quotients plus zero points as the floats that are output 0.
func quantizeFloats(c *call, x *tensor.Tensor, q []float32, zp *tensor.Tensor, scales int, sp spread, mode castMode) error {
	out, err := c.outIn(0, tensor.RowMajor)
	if err != nil {
		return err
	}
	if zp != nil {
		zeros := numbersOf[float32](zp)
		if zp.Len() != scales {
			return fmt.Errorf("%d zero points for %d scales", zp.Len(), scales)
		}
		sp.each(len(q), func(at, n, k int) {
			for i := at; i < at+n; i++ {
				q[i] += zeros[k]
			}
		})
	}
	codes, err := castAs(out.DType, tensor.FromF32(q, x.Shape...), mode)
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, codes, 0, storageLen(out))
	return nil
}

// quantizeInts writes src, the elements of x, on the grids of their scales.
func quantizeInts(c *call, x *tensor.Tensor, src []float32, sp spread, grid func(k int) qmath.Grid) error {
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	if sp.single {
		return quantizeAll(c, out, src, grid(0))
	}
	if x.Layout != tensor.RowMajor {
		return quantizeAxis(out, src, sp, grid)
	}
	q := make([]int32, len(src))
	sp.each(len(src), func(at, n, k int) {
		g := grid(k)
		for i := at; i < at+n; i++ {
			q[i] = g.Quantize(src[i])
		}
	})
	packInts(out, q)
	return nil
}

// quantizeAxis quantizes a channels-last tensor with scales along one axis (blocks are refused in that layout).
func quantizeAxis(out *tensor.Tensor, src []float32, sp spread, grid func(k int) qmath.Grid) error {
	if sp.block != 1 {
		return fmt.Errorf("block quantization of a channels-last tensor")
	}
	outer, n, inner := out.Blocks(sp.axis)
	q := make([]int32, len(src))
	for k := range n {
		g := grid(k)
		for o := range outer {
			at := (o*n + k) * inner
			for i := at; i < at+inner; i++ {
				q[i] = g.Quantize(src[i])
			}
		}
	}
	packInts(out, q)
	return nil
}

// quantizeAll quantizes with one scale, without a detour for the byte types.
func quantizeAll(c *call, out *tensor.Tensor, src []float32, g qmath.Grid) error {
	switch d := out.Data.(type) {
	case []int8:
		if !c.quantizeSigned(d, src, g) {
			quantizeInto(c, d, src, g)
		}
	case []int16:
		quantizeInto(c, d, src, g)
	case []uint16:
		quantizeInto(c, d, src, g)
	case []uint8:
		if out.DType.Bits() == 8 {
			if !c.quantizeBytes(d, src, g) {
				quantizeInto(c, d, src, g)
			}
			return nil
		}
		q := make([]int32, len(src))
		quantizeInto(c, q, src, g)
		packInts(out, q)
	}
	return nil
}

func quantizeInto[T integer](c *call, dst []T, src []float32, g qmath.Grid) {
	c.parallel(len(src), 8, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = T(g.Quantize(src[i]))
		}
	})
}

// buildDequantize is (q - zero point) * scale in float32, rounded to the type of the result.
func buildDequantize(n *graph.Node, _ int64) (evalFunc, error) {
	axis, block := n.Axis(), n.Quantize().Block
	return func(c *call) error {
		x, scale, zp := c.raw(0), c.in(1), c.in(2)
		switch scale.DType {
		case tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float8E8M0:
		default:
			return badType(1, scale.DType)
		}
		if scale.Len() != 1 {
			x = c.in(0)
		}
		sp, err := spreadOf(x.Shape, scale, axis, block)
		if err != nil {
			return err
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		scales, dst := numbersOf[float32](scale), out.F32()
		switch out.DType {
		case tensor.Float32:
		case tensor.Float16, tensor.BFloat16:
			dst = make([]float32, out.Len())
			defer func() { encodeHalves(tensor.Of[uint16](out), dst, minifloats[out.DType]) }()
		default:
			return fmt.Errorf("dequantizing to %s is not supported", out.DType)
		}
		switch q := readable(x).(type) {
		case []float32:
			if f := minifloats[x.DType]; x.DType == tensor.Float32 || f == qmath.Half || f == qmath.Brain {
				return badType(0, x.DType)
			}
			return dequantizeFloats(dst, q, sp, scales, zp)
		case []int8:
			return dequantizeInts(dst, q, sp, scales, zp)
		case []uint8:
			return dequantizeInts(dst, q, sp, scales, zp)
		case []int16:
			return dequantizeInts(dst, q, sp, scales, zp)
		case []uint16:
			return dequantizeInts(dst, q, sp, scales, zp)
		case []int32:
			return dequantizeInts(dst, q, sp, scales, zp)
		}
		return badType(0, x.DType)
	}, nil
}

func dequantizeInts[T integer](dst []float32, q []T, sp spread, scale []float32, zp *tensor.Tensor) error {
	zeros, err := zeroPoints(zp, len(scale))
	if err != nil {
		return err
	}
	sp.each(len(q), func(at, n, k int) {
		g := qmath.Grid{Scale: scale[k], ZeroPoint: zeros[k]}
		for i := at; i < at+n; i++ {
			dst[i] = g.Dequantize(int32(q[i]))
		}
	})
	return nil
}

func dequantizeFloats(dst, q []float32, sp spread, scale []float32, zp *tensor.Tensor) error {
	zeros := make([]float32, len(scale))
	if zp != nil {
		zeros = numbersOf[float32](zp)
	}
	if len(zeros) != len(scale) {
		return fmt.Errorf("%d zero points for %d scales", len(zeros), len(scale))
	}
	sp.each(len(q), func(at, n, k int) {
		for i := at; i < at+n; i++ {
			dst[i] = (q[i] - zeros[k]) * scale[k]
		}
	})
	return nil
}

// evalDynamicQuantize chooses a uint8 grid from the tensor's range widened to 0, in float32 as ONNX defines it, and
// quantizes with it. Outputs: the integers, the scale, the zero point.
func evalDynamicQuantize(c *call) error {
	if err := c.floats(); err != nil {
		return err
	}
	x := c.raw(0)
	g, err := c.dynamicGrid(x.F32())
	if err != nil {
		return err
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	s, err := c.outAs(1, tensor.Float32, []int{}, tensor.RowMajor)
	if err != nil {
		return err
	}
	z, err := c.outAs(2, tensor.Uint8, []int{}, tensor.RowMajor)
	if err != nil {
		return err
	}
	s.F32()[0], tensor.Of[uint8](z)[0] = g.Scale, uint8(g.ZeroPoint)
	return quantizeAll(c, out, x.F32(), g)
}

// dynamicGrid is the uint8 grid that DynamicQuantizeLinear derives from the range of x, widened to contain 0. An empty range has
// scale 1.
func (c *call) dynamicGrid(x []float32) (qmath.Grid, error) {
	mem := &c.run.codes
	if mem.meter == nil {
		mem.meter = c.run.s.table.NewMeter()
	}
	lo, hi := float32(0), float32(0)
	if least, most, finite := mem.meter.MinMax(x); finite && len(x) > 0 {
		lo, hi = min(lo, least), max(hi, most)
	} else {
		for _, v := range x {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo != lo || hi != hi {
		return qmath.Grid{}, qmath.ErrNaN
	}
	g := qmath.Grid{Scale: (hi - lo) / 255, QMax: 255}
	switch {
	case g.Scale == 0:
		g.Scale = 1
	case !qmath.Representable(g.Scale):
		return g, fmt.Errorf("input 0 has a range of [%g, %g]", lo, hi)
	}
	g.ZeroPoint = int32(min(max(qmath.HalfEven.Round(float64(0-lo/g.Scale)), 0), 255))
	return g, nil
}
