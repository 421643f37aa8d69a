package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// castEvals convert between element types.
var castEvals = []evaluator{
	{"Cast", buildCast},
	{"CastLike", buildCastLike},
}

// castMode is what Cast and CastLike say about conversions to floats of 8 bits.
type castMode struct {
	clip bool           // what is out of range becomes the largest number instead of infinity or NaN
	e8m0 qmath.Rounding // of f8e8m0
}

// plainCast is what the attributes are by default.
var plainCast = castMode{clip: true, e8m0: qmath.Up}

func buildCast(n *graph.Node, _ int64) (evalFunc, error) {
	to := tensor.DType(n.AttrInt("to", 0))
	if a := n.Attr("to"); a != nil && a.Kind == graph.AttrString { // before opset 6
		var err error
		if to, err = legacyType(a.S); err != nil {
			return nil, err
		}
	}
	mode, err := castModeOf(n)
	if err != nil {
		return nil, err
	}
	if _, err := castAs(to, &tensor.Tensor{DType: tensor.Float32, Shape: []int{0}, Data: []float32{}}, mode); err != nil {
		return nil, err
	}
	return func(c *call) error { return cast(c, to, mode) }, nil
}

func buildCastLike(n *graph.Node, _ int64) (evalFunc, error) {
	mode, err := castModeOf(n)
	return func(c *call) error { return cast(c, c.raw(1).DType, mode) }, err
}

func castModeOf(n *graph.Node) (castMode, error) {
	m := castMode{clip: n.AttrInt("saturate", 1) != 0}
	switch name := n.AttrStr("round_mode", "up"); name {
	case "up":
		m.e8m0 = qmath.Up
	case "down":
		m.e8m0 = qmath.Down
	case "nearest":
		m.e8m0 = qmath.HalfUp
	default:
		return m, fmt.Errorf("round_mode %q is not supported", name)
	}
	return m, nil
}

// legacyType reads the type names of Cast before opset 6.
func legacyType(name string) (tensor.DType, error) {
	switch name {
	case "FLOAT":
		return tensor.Float32, nil
	case "FLOAT16":
		return tensor.Float16, nil
	case "DOUBLE":
		return tensor.Float64, nil
	case "INT8":
		return tensor.Int8, nil
	case "INT16":
		return tensor.Int16, nil
	case "INT32":
		return tensor.Int32, nil
	case "INT64":
		return tensor.Int64, nil
	case "UINT8":
		return tensor.Uint8, nil
	case "UINT16":
		return tensor.Uint16, nil
	case "UINT32":
		return tensor.Uint32, nil
	case "UINT64":
		return tensor.Uint64, nil
	case "BOOL":
		return tensor.Bool, nil
	}
	return 0, fmt.Errorf("type %q", name)
}

// cast converts input 0, keeping its layout. Numbers are truncated towards zero, bits that an integer has no room for are dropped,
// true is 1, and every number but zero is true.
func cast(c *call, to tensor.DType, mode castMode) error {
	x := c.raw(0)
	if x.DType == to {
		return c.pass(0, 0)
	}
	if isPacked(to) {
		x = c.in(0)
	}
	if to == tensor.Float32 { // what stands behind integer products
		switch x.DType {
		case tensor.Int32:
			return castFloats(c, x, tensor.Of[int32](x))
		case tensor.Uint8:
			return castFloats(c, x, tensor.Of[uint8](x))
		case tensor.Int8:
			return castFloats(c, x, tensor.Of[int8](x))
		}
	}
	data, err := castAs(to, x, mode)
	if err != nil {
		return err
	}
	out, err := c.outAs(0, to, x.Shape, x.Layout)
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, data, 0, storageLen(out))
	return nil
}

// castFloats converts input 0, whose elements are src, to float32 where they will lie.
func castFloats[S number](c *call, x *tensor.Tensor, src []S) error {
	out, err := c.outAs(0, tensor.Float32, x.Shape, x.Layout)
	if err != nil {
		return err
	}
	dst := out.F32()
	c.parallel(len(src), 1, func(lo, hi int) { castNumbers(dst[lo:hi], src[lo:hi]) })
	return nil
}

// castTo returns the elements of t as storage of type d.
func castTo(d tensor.DType, t *tensor.Tensor) (any, error) { return castAs(d, t, plainCast) }

func castAs(d tensor.DType, t *tensor.Tensor, mode castMode) (any, error) {
	switch src := readable(t).(type) {
	case []float32:
		return castFrom(d, src, mode)
	case []float64:
		return castFrom(d, src, mode)
	case []int8:
		return castFrom(d, src, mode)
	case []int16:
		return castFrom(d, src, mode)
	case []int32:
		return castFrom(d, src, mode)
	case []int64:
		return castFrom(d, src, mode)
	case []uint8:
		return castFrom(d, src, mode)
	case []uint16:
		return castFrom(d, src, mode)
	case []uint32:
		return castFrom(d, src, mode)
	case []uint64:
		return castFrom(d, src, mode)
	}
	return nil, fmt.Errorf("cast from %s to %s is not supported", t.DType, d)
}

func castFrom[S number](d tensor.DType, src []S, mode castMode) (any, error) {
	switch d {
	case tensor.Float32:
		return convertTo[float32](src), nil
	case tensor.Float64:
		return convertTo[float64](src), nil
	case tensor.Int8:
		return convertTo[int8](src), nil
	case tensor.Int16:
		return convertTo[int16](src), nil
	case tensor.Int32:
		return convertTo[int32](src), nil
	case tensor.Int64:
		return convertTo[int64](src), nil
	case tensor.Uint8:
		return convertTo[uint8](src), nil
	case tensor.Uint16:
		return convertTo[uint16](src), nil
	case tensor.Uint32:
		return convertTo[uint32](src), nil
	case tensor.Uint64:
		return convertTo[uint64](src), nil
	case tensor.Bool:
		return mapSlice(src, func(v S) bool { return v != 0 }), nil
	case tensor.Float8E8M0:
		return mapSlice(src, func(v S) uint8 { return qmath.EncodeE8M0(float64(v), mode.e8m0, mode.clip) }), nil
	case tensor.Int4, tensor.Uint4, tensor.Int2, tensor.Uint2:
		return packBits(d, mapSlice(src, func(v S) uint8 { return uint8(int64(v)) })), nil
	}
	f, ok := minifloats[d]
	if !ok {
		return nil, fmt.Errorf("cast to %s is not supported", d)
	}
	if d == tensor.Float16 || d == tensor.BFloat16 {
		return encodeHalves(make([]uint16, len(src)), src, f), nil
	}
	codes := mapSlice(src, func(v S) uint8 { return uint8(f.Encode(float64(v), mode.clip)) })
	if isPacked(d) {
		codes = packBits(d, codes)
	}
	return codes, nil
}

// encodeHalves writes numbers of any type to floats of 16 bits.
func encodeHalves[S number](dst []uint16, src []S, f qmath.Minifloat) []uint16 {
	singles, ok := any(src).([]float32)
	switch {
	case ok && f == qmath.Half:
		for i, v := range singles {
			dst[i] = qmath.HalfBits(v)
		}
	case ok:
		for i, v := range singles {
			dst[i] = qmath.BrainBits(v)
		}
	default:
		for i, v := range src {
			dst[i] = f.Encode(float64(v), false)
		}
	}
	return dst
}

func convertTo[D, S number](src []S) []D {
	out := make([]D, len(src))
	castNumbers(out, src)
	return out
}

func castNumbers[D, S number](dst []D, src []S) {
	for i, v := range src {
		dst[i] = D(v)
	}
}

func mapSlice[S, D any](src []S, f func(S) D) []D {
	out := make([]D, len(src))
	for i, v := range src {
		out[i] = f(v)
	}
	return out
}
