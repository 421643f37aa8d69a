package exec

import (
	"fmt"
	"math"

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

// spread says which scale belongs to which element of a tensor: element i uses scale number of(i).
type spread struct {
	axis, block int
	step        []int // strides of the scale tensor along the axes of the data, row-major
	shape       []int
	single      bool
}

// spreadOf matches a scale with data of the given shape: one number, one per index of the axis, or one per block of it.
func spreadOf(shape []int, scale *tensor.Tensor, axis int, block int) (spread, error) {
	s := spread{shape: shape, single: scale.Len() == 1 && len(scale.Shape) <= 1}
	if s.single {
		return s, nil
	}
	a, err := axisIn(axis, len(shape))
	if err != nil {
		return s, err
	}
	s.axis, s.block = a, 1
	s.step = make([]int, len(shape))
	if len(scale.Shape) == 1 {
		if scale.Shape[0] != shape[a] {
			return s, fmt.Errorf("%d scales for axis %d of %d", scale.Shape[0], a, shape[a])
		}
		s.step[a] = 1
		return s, nil
	}
	if len(scale.Shape) != len(shape) {
		return s, fmt.Errorf("scale %s for data of shape %v", scale.Type(), shape)
	}
	if s.block = block; block < 1 {
		if scale.Shape[a] == 0 || shape[a]%scale.Shape[a] != 0 {
			return s, fmt.Errorf("scale %s for data of shape %v without block_size", scale.Type(), shape)
		}
		s.block = shape[a] / scale.Shape[a]
	}
	for i, n := range scale.Shape {
		want := shape[i]
		if i == a {
			want = (shape[i] + s.block - 1) / s.block
		}
		if n != want {
			return s, fmt.Errorf("scale %s for data of shape %v in blocks of %d on axis %d", scale.Type(), shape, s.block, a)
		}
	}
	s.step = rowStrides(scale.Shape)
	return s, nil
}

// each calls f with runs of elements that share a scale: their offset, number and the number of the scale.
func (s spread) each(n int, f func(at, n, scale int)) {
	if s.single {
		f(0, n, 0)
		return
	}
	inner := tensor.Count(s.shape[s.axis+1:])
	if tensor.Count(s.step[s.axis+1:]) != 0 && len(s.step) > s.axis+1 {
		inner = 1 // block quantization: the scale varies along later axes too
	}
	it := newCounter(s.shape, 0)
	for at := 0; at < n; at += inner {
		k := 0
		for a, i := range it.index {
			if a == s.axis {
				i /= s.block
			}
			k += i * s.step[a]
		}
		f(at, inner, k)
		it.advance(inner)
	}
}

// advance moves the counter on by n indices.
func (c *counter) advance(n int) {
	for a := len(c.index) - 1; a >= 0 && n > 0; a-- {
		n += c.index[a]
		c.index[a] = n % c.shape[a]
		n /= c.shape[a]
	}
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
	switch d := t.Data.(type) {
	case []int8:
		return convertTo[int32](d), nil
	case []int16:
		return convertTo[int32](d), nil
	case []int32:
		return d, nil
	case []uint16:
		if t.DType == tensor.Uint16 {
			return convertTo[int32](d), nil
		}
	case []uint8:
		switch t.DType {
		case tensor.Uint8:
			return convertTo[int32](d), nil
		case tensor.Uint4, tensor.Int4, tensor.Uint2, tensor.Int2:
			return unpackBits(t), nil
		}
	}
	return nil, fmt.Errorf("quantized type %s is not supported", t.DType)
}

// unpackBits reads 2- and 4-bit integers, the first element in the low bits.
func unpackBits(t *tensor.Tensor) []int32 {
	bits := t.DType.Bits()
	signed := t.DType == tensor.Int4 || t.DType == tensor.Int2
	out := make([]int32, t.Len())
	for i := range out {
		v := int32(tensor.Of[uint8](t)[i*bits/8]>>(i*bits%8)) & (1<<bits - 1)
		if signed && v >= 1<<(bits-1) {
			v -= 1 << bits
		}
		out[i] = v
	}
	return out
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
		bits := t.DType.Bits()
		if bits == 8 {
			castNumbers(d, v)
			return
		}
		clear(d)
		for i, x := range v {
			d[i*bits/8] |= uint8(x&(1<<bits-1)) << (i * bits % 8)
		}
	}
}

// buildQuantize is clamp(round_half_even(x / scale) + zero point) with a true float32 division.
func buildQuantize(n *graph.Node, version int64) (evalFunc, error) {
	axis, block := int(n.AttrInt("axis", 1)), int(n.AttrInt("block_size", 0))
	if n.AttrInt("precision", 0) > 1 {
		return nil, fmt.Errorf("precision %d is not supported", n.AttrInt("precision", 0))
	}
	return func(c *call) error {
		x, scale, zp := c.raw(0), c.in(1), c.in(2)
		if x.DType == tensor.Int32 {
			x = &tensor.Tensor{DType: tensor.Float32, Layout: x.Layout, Shape: x.Shape, Data: convertTo[float32](tensor.Of[int32](x))}
		}
		if x.DType != tensor.Float32 || scale.DType != tensor.Float32 {
			return badType(0, x.DType)
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		limits, ok := bounds[out.DType]
		if !ok {
			return fmt.Errorf("quantizing to %s is not supported", out.DType)
		}
		zps, err := zeroPoints(zp, scale.Len())
		if err != nil {
			return err
		}
		sp, err := spreadOf(x.Shape, scale, axis, block)
		if err != nil {
			return err
		}
		grid := func(k int) qmath.Grid {
			return qmath.Grid{Scale: scale.F32()[k], ZeroPoint: zps[k], QMin: limits[0], QMax: limits[1]}
		}
		src := x.F32()
		if sp.single {
			return quantizeAll(c, out, src, grid(0))
		}
		if x.Layout != tensor.RowMajor {
			return c.quantizeAxis(out, x, sp, grid)
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
	}, nil
}

// quantizeAxis quantizes a channels-last tensor with scales along one axis (blocks are refused in that layout).
func (c *call) quantizeAxis(out, x *tensor.Tensor, sp spread, grid func(k int) qmath.Grid) error {
	if sp.block != 1 {
		return fmt.Errorf("block quantization of a channels-last tensor")
	}
	outer, n, inner := x.Blocks(sp.axis)
	q := make([]int32, x.Len())
	for k := range n {
		g := grid(k)
		for o := range outer {
			at := (o*n + k) * inner
			for i := at; i < at+inner; i++ {
				q[i] = g.Quantize(x.F32()[i])
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
		quantizeInto(c, d, src, g)
	case []int16:
		quantizeInto(c, d, src, g)
	case []uint16:
		quantizeInto(c, d, src, g)
	case []uint8:
		if out.DType.Bits() == 8 {
			quantizeInto(c, d, src, g)
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

// buildDequantize is (q - zero point) * scale in float32.
func buildDequantize(n *graph.Node, _ int64) (evalFunc, error) {
	axis, block := int(n.AttrInt("axis", 1)), int(n.AttrInt("block_size", 0))
	return func(c *call) error {
		x, scale := c.raw(0), c.in(1)
		if scale.DType != tensor.Float32 {
			return badType(1, scale.DType)
		}
		if scale.Len() != 1 {
			x = c.in(0)
		}
		zps, err := zeroPoints(c.in(2), scale.Len())
		if err != nil {
			return err
		}
		sp, err := spreadOf(x.Shape, scale, axis, block)
		if err != nil {
			return err
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		dst := out.F32()
		if dst == nil {
			return fmt.Errorf("dequantizing to %s is not supported", out.DType)
		}
		switch d := x.Data.(type) {
		case []int8:
			dequantizeInto(dst, d, sp, scale.F32(), zps)
		case []uint8:
			if x.DType != tensor.Uint8 {
				return dequantizePacked(dst, x, sp, scale.F32(), zps)
			}
			dequantizeInto(dst, d, sp, scale.F32(), zps)
		case []int32:
			dequantizeInto(dst, d, sp, scale.F32(), zps)
		default:
			return dequantizePacked(dst, x, sp, scale.F32(), zps)
		}
		return nil
	}, nil
}

func dequantizePacked(dst []float32, x *tensor.Tensor, sp spread, scale []float32, zp []int32) error {
	q, err := unpackInts(x)
	if err == nil {
		dequantizeInto(dst, q, sp, scale, zp)
	}
	return err
}

func dequantizeInto[T integer](dst []float32, q []T, sp spread, scale []float32, zp []int32) {
	sp.each(len(q), func(at, n, k int) {
		g := qmath.Grid{Scale: scale[k], ZeroPoint: zp[k]}
		for i := at; i < at+n; i++ {
			dst[i] = g.Dequantize(int32(q[i]))
		}
	})
}

// evalDynamicQuantize chooses a uint8 grid from the tensor's range widened to 0, in float32 as ONNX defines it, and
// quantizes with it. Outputs: the integers, the scale, the zero point.
func evalDynamicQuantize(c *call) error {
	if err := c.floats(); err != nil {
		return err
	}
	x := c.raw(0)
	lo, hi := float32(0), float32(0)
	for _, v := range x.F32() {
		lo, hi = min(lo, v), max(hi, v)
	}
	if lo != lo || hi != hi {
		return qmath.ErrNaN
	}
	scale := (hi - lo) / 255
	zp := int32(0)
	if scale > 0 {
		zp = int32(min(max(qmath.HalfEven.Round(float64(0-lo/scale)), 0), 255))
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
	s.F32()[0], tensor.Of[uint8](z)[0] = scale, uint8(zp)
	if scale == 0 || math.IsInf(float64(scale), 0) {
		scale = 1
	}
	return quantizeAll(c, out, x.F32(), qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: 0, QMax: 255})
}
