package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// signOp is one of the functions that exist for every number type.
type signOp uint8

const (
	absOp signOp = iota
	negOp
	signumOp
	reluOp
)

func evalAbs(c *call) error  { return mapNumbers(c, absOp) }
func evalNeg(c *call) error  { return mapNumbers(c, negOp) }
func evalSign(c *call) error { return mapNumbers(c, signumOp) }

// mapNumbers applies op to every element of input 0, of any number type.
func mapNumbers(c *call, op signOp) error {
	x := c.raw(0)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	switch src := x.Data.(type) {
	case []float32:
		if op == absOp {
			for i, v := range src { // clears the sign of zero and NaN too
				out.F32()[i] = abs32(v)
			}
			return nil
		}
		mapSign(out.F32(), src, op)
	case []float64:
		mapSign(tensor.Of[float64](out), src, op)
	case []int8:
		mapSign(tensor.Of[int8](out), src, op)
	case []int16:
		mapSign(tensor.Of[int16](out), src, op)
	case []int32:
		mapSign(tensor.Of[int32](out), src, op)
	case []int64:
		mapSign(out.I64(), src, op)
	case []uint8:
		mapSign(tensor.Of[uint8](out), src, op)
	case []uint16:
		if x.DType != tensor.Uint16 {
			return badType(0, x.DType)
		}
		mapSign(tensor.Of[uint16](out), src, op)
	case []uint32:
		mapSign(tensor.Of[uint32](out), src, op)
	case []uint64:
		mapSign(tensor.Of[uint64](out), src, op)
	default:
		return badType(0, x.DType)
	}
	return nil
}

func mapSign[T number](dst, src []T, op signOp) {
	for i, v := range src {
		switch op {
		case absOp:
			if v < 0 {
				v = -v
			}
		case negOp:
			v = -v
		case signumOp:
			switch {
			case v > 0:
				v = 1
			case v < 0:
				v = 0
				v--
			}
		case reluOp:
			if v < 0 {
				v = 0
			}
		}
		dst[i] = v
	}
}

func evalNot(c *call) error {
	x := c.raw(0)
	src, ok := x.Data.([]bool)
	if !ok {
		return badType(0, x.DType)
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	dst := tensor.Of[bool](out)
	for i, v := range src {
		dst[i] = !v
	}
	return nil
}

func evalBitwiseNot(c *call) error {
	x := c.raw(0)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	switch src := x.Data.(type) {
	case []int8:
		flip(tensor.Of[int8](out), src)
	case []int16:
		flip(tensor.Of[int16](out), src)
	case []int32:
		flip(tensor.Of[int32](out), src)
	case []int64:
		flip(out.I64(), src)
	case []uint8:
		flip(tensor.Of[uint8](out), src)
	case []uint16:
		flip(tensor.Of[uint16](out), src)
	case []uint32:
		flip(tensor.Of[uint32](out), src)
	case []uint64:
		flip(tensor.Of[uint64](out), src)
	default:
		return badType(0, x.DType)
	}
	return nil
}

func flip[T integer](dst, src []T) {
	for i, v := range src {
		dst[i] = ^v
	}
}

func evalIsNaN(c *call) error {
	return classify(c, math.IsNaN)
}

func buildIsInf(n *graph.Node, _ int64) (evalFunc, error) {
	neg, pos := n.AttrInt("detect_negative", 1) != 0, n.AttrInt("detect_positive", 1) != 0
	return func(c *call) error {
		return classify(c, func(x float64) bool { return neg && math.IsInf(x, -1) || pos && math.IsInf(x, 1) })
	}, nil
}

// classify maps floats to truth values.
func classify(c *call, f func(float64) bool) error {
	x := c.raw(0)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	dst := tensor.Of[bool](out)
	switch src := x.Data.(type) {
	case []float32:
		for i, v := range src {
			dst[i] = f(float64(v))
		}
	case []float64:
		for i, v := range src {
			dst[i] = f(v)
		}
	default:
		return badType(0, x.DType)
	}
	return nil
}
