package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// castEvals convert between element types.
var castEvals = []evaluator{
	{"Cast", buildCast},
	{"CastLike", simple(func(c *call) error { return cast(c, c.raw(1).DType) })},
}

func buildCast(n *graph.Node, _ int64) (evalFunc, error) {
	to := tensor.DType(n.AttrInt("to", 0))
	if a := n.Attr("to"); a != nil && a.Kind == graph.AttrString { // before opset 6
		var err error
		if to, err = legacyType(a.S); err != nil {
			return nil, err
		}
	}
	if _, err := castTo(to, &tensor.Tensor{DType: tensor.Float32, Shape: []int{0}, Data: []float32{}}); err != nil {
		return nil, err
	}
	return func(c *call) error { return cast(c, to) }, nil
}

// legacyType reads the type names of Cast before opset 6.
func legacyType(name string) (tensor.DType, error) {
	switch name {
	case "FLOAT":
		return tensor.Float32, nil
	case "DOUBLE":
		return tensor.Float64, nil
	case "INT32":
		return tensor.Int32, nil
	case "INT64":
		return tensor.Int64, nil
	case "BOOL":
		return tensor.Bool, nil
	case "UINT8":
		return tensor.Uint8, nil
	case "INT8":
		return tensor.Int8, nil
	}
	return 0, fmt.Errorf("type %q", name)
}

// cast converts input 0, keeping its layout. Numbers are truncated towards zero, true is 1, and every number but zero is true.
func cast(c *call, to tensor.DType) error {
	x := c.raw(0)
	if x.DType == to {
		return c.pass(0, 0)
	}
	data, err := castTo(to, x)
	if err != nil {
		return err
	}
	out, err := c.outAs(0, to, x.Shape, x.Layout)
	if err != nil {
		return err
	}
	copyElements(out.Data, 0, data, 0, x.Len())
	return nil
}

// castTo returns the elements of t as storage of type d.
func castTo(d tensor.DType, t *tensor.Tensor) (any, error) {
	switch t.DType {
	case tensor.Float16:
		t = &tensor.Tensor{DType: tensor.Float32, Shape: t.Shape, Data: mapSlice(tensor.Of[uint16](t), fromHalf)}
	case tensor.BFloat16:
		t = &tensor.Tensor{DType: tensor.Float32, Shape: t.Shape, Data: mapSlice(tensor.Of[uint16](t), fromBrain)}
	}
	switch src := t.Data.(type) {
	case []float32:
		return castFrom(d, src)
	case []float64:
		return castFrom(d, src)
	case []int8:
		return castFrom(d, src)
	case []int16:
		return castFrom(d, src)
	case []int32:
		return castFrom(d, src)
	case []int64:
		return castFrom(d, src)
	case []uint8:
		if t.DType == tensor.Uint8 {
			return castFrom(d, src)
		}
	case []uint16:
		return castFrom(d, src)
	case []uint32:
		return castFrom(d, src)
	case []uint64:
		return castFrom(d, src)
	case []bool:
		return castFrom(d, mapSlice(src, func(b bool) uint8 {
			if b {
				return 1
			}
			return 0
		}))
	}
	return nil, fmt.Errorf("cast from %s to %s is not supported", t.DType, d)
}

func castFrom[S number](d tensor.DType, src []S) (any, error) {
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
	case tensor.Float16:
		return mapSlice(src, func(v S) uint16 { return toHalf(float32(v)) }), nil
	case tensor.BFloat16:
		return mapSlice(src, func(v S) uint16 { return uint16(math.Float32bits(qmath.BF16.Round(float32(v))) >> 16) }), nil
	}
	return nil, fmt.Errorf("cast to %s is not supported", d)
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

func fromBrain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// fromHalf converts IEEE 754 binary16 exactly.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, int(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | frac<<13)
}

// toHalf converts to IEEE 754 binary16, to nearest even.
func toHalf(x float32) uint16 {
	r := qmath.FP16.Round(x)
	bits := math.Float32bits(r)
	sign, abs := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs == 0x7f800000:
		return sign | 0x7c00
	case abs >= 0x38800000: // normal in binary16
		return sign | uint16(abs>>13-112<<10)
	}
	return sign | uint16(abs32(r)*0x1p24)
}
