package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// compareEvals are the comparisons and the operators on truth values, with broadcasting.
var compareEvals = []evaluator{
	{"Equal", compare(isEqual)},
	{"Greater", compare(isGreater)},
	{"GreaterOrEqual", compare(isGreaterEqual)},
	{"Less", compare(isLess)},
	{"LessOrEqual", compare(isLessEqual)},
	{"And", logic(func(a, b bool) bool { return a && b })},
	{"Or", logic(func(a, b bool) bool { return a || b })},
	{"Xor", logic(func(a, b bool) bool { return a != b })},
}

type comparison uint8

const (
	isEqual comparison = iota
	isGreater
	isGreaterEqual
	isLess
	isLessEqual
)

// compareWith prepares operands and output of an operator that gives truth values.
func compareWith(n *graph.Node, version int64, f func(c *call, br broadcast, out []bool, a, b *tensor.Tensor) error) (evalFunc, error) {
	axis := legacyAxis(n, version)
	return func(c *call) error {
		in, layout := c.operands(c.outShape(0))
		if in[0].DType != in[1].DType {
			return fmt.Errorf("operands of different types: %s and %s", in[0].Type(), in[1].Type())
		}
		out, err := c.outIn(0, layout)
		if err != nil {
			return err
		}
		return f(c, broadcastTo(out.Shape, out.Layout, axis, in[0], in[1]), tensor.Of[bool](out), in[0], in[1])
	}, nil
}

func logic(f func(a, b bool) bool) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		return compareWith(n, version, func(c *call, br broadcast, out []bool, a, b *tensor.Tensor) error {
			x, ok := a.Data.([]bool)
			if !ok {
				return badType(0, a.DType)
			}
			zip(c, br, out, x, tensor.Of[bool](b), 1, f)
			return nil
		})
	}
}

func compare(op comparison) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		return compareWith(n, version, func(c *call, br broadcast, out []bool, a, b *tensor.Tensor) error {
			switch x := a.Data.(type) {
			case []float32:
				zip(c, br, out, x, b.F32(), 1, comparer[float32](op))
			case []float64:
				zip(c, br, out, x, tensor.Of[float64](b), 1, comparer[float64](op))
			case []int8:
				zip(c, br, out, x, tensor.Of[int8](b), 1, comparer[int8](op))
			case []int16:
				zip(c, br, out, x, tensor.Of[int16](b), 1, comparer[int16](op))
			case []int32:
				zip(c, br, out, x, tensor.Of[int32](b), 1, comparer[int32](op))
			case []int64:
				zip(c, br, out, x, b.I64(), 1, comparer[int64](op))
			case []uint8:
				zip(c, br, out, x, tensor.Of[uint8](b), 1, comparer[uint8](op))
			case []uint32:
				zip(c, br, out, x, tensor.Of[uint32](b), 1, comparer[uint32](op))
			case []uint64:
				zip(c, br, out, x, tensor.Of[uint64](b), 1, comparer[uint64](op))
			case []uint16:
				if a.DType != tensor.Uint16 {
					return badType(0, a.DType)
				}
				zip(c, br, out, x, tensor.Of[uint16](b), 1, comparer[uint16](op))
			case []string:
				zip(c, br, out, x, tensor.Of[string](b), 1, comparer[string](op))
			case []bool:
				if op != isEqual {
					return badType(0, a.DType)
				}
				zip(c, br, out, x, tensor.Of[bool](b), 1, func(a, b bool) bool { return a == b })
			default:
				return badType(0, a.DType)
			}
			return nil
		})
	}
}

func comparer[T number | string](op comparison) func(a, b T) bool {
	switch op {
	case isGreater:
		return func(a, b T) bool { return a > b }
	case isGreaterEqual:
		return func(a, b T) bool { return a >= b }
	case isLess:
		return func(a, b T) bool { return a < b }
	case isLessEqual:
		return func(a, b T) bool { return a <= b }
	}
	return func(a, b T) bool { return a == b }
}
