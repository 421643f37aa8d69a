package exec

import (
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// applyWide is resampler.apply for element types other than float32, in float64. Integers are cut toward zero, as the ONNX
// reference and ONNX Runtime do, and limited to their type.
func (r *resampler) applyWide(c *call, x *tensor.Tensor, maps []*axisMap) error {
	cur := &tensor.Tensor{DType: tensor.Float64, Layout: x.Layout, Shape: x.Shape, Data: numbersOf[float64](x)}
	if cur.Data.([]float64) == nil {
		return badType(0, x.DType)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	for a, m := range maps {
		if m == nil {
			continue
		}
		shape := append([]int(nil), cur.Shape...)
		shape[a] = len(m.index)
		if _, err := checkedLen(shape); err != nil {
			return err
		}
		next := tensor.New(tensor.Float64, shape...)
		next.Layout = x.Layout
		outer, n, inner := cur.Blocks(a)
		blend(c, next.Data.([]float64), cur.Data.([]float64), outer, n, inner, m, r.blank)
		cur = next
	}
	data := cur.Data.([]float64)
	if lo, hi, ok := integerRange(x.DType); ok {
		data = mapSlice(data, func(v float64) float64 { return max(lo, min(hi, cut(v))) })
	}
	result, err := castTo(x.DType, &tensor.Tensor{DType: tensor.Float64, Shape: cur.Shape, Data: data})
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, result, 0, len(data))
	return nil
}

// cut drops the fraction of v, but an integer that a sum of weights missed stays that integer.
func cut(v float64) float64 {
	if n := qmath.HalfEven.Round(v); math.Abs(n-v) <= 0x1p-30*math.Abs(n) {
		return n
	}
	return math.Trunc(v)
}

// integerRange returns the smallest and the largest float64 that an integer type of whole bytes holds.
func integerRange(d tensor.DType) (lo, hi float64, ok bool) {
	bits := d.Bits()
	switch d {
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		bits--
		lo = -math.Ldexp(1, bits)
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
	default:
		return 0, 0, false
	}
	hi = math.Ldexp(1, bits) - 1
	if bits > 53 {
		hi = math.Nextafter(math.Ldexp(1, bits), 0)
	}
	return lo, hi, true
}
