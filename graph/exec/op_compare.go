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
				compareRows(c, br, out, x, b.F32(), op)
			case []float64:
				compareRows(c, br, out, x, tensor.Of[float64](b), op)
			case []int8:
				compareRows(c, br, out, x, tensor.Of[int8](b), op)
			case []int16:
				compareRows(c, br, out, x, tensor.Of[int16](b), op)
			case []int32:
				compareRows(c, br, out, x, tensor.Of[int32](b), op)
			case []int64:
				compareRows(c, br, out, x, b.I64(), op)
			case []uint8:
				compareRows(c, br, out, x, tensor.Of[uint8](b), op)
			case []uint32:
				compareRows(c, br, out, x, tensor.Of[uint32](b), op)
			case []uint64:
				compareRows(c, br, out, x, tensor.Of[uint64](b), op)
			case []uint16:
				if a.DType != tensor.Uint16 {
					return badType(0, a.DType)
				}
				compareRows(c, br, out, x, tensor.Of[uint16](b), op)
			case []string:
				compareRows(c, br, out, x, tensor.Of[string](b), op)
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

// comparer returns a comparison of rows of one length: a call for every element would cost more than what it does.
func comparer[T number | string](op comparison) func(dst []bool, a, b []T) {
	switch op {
	case isGreater:
		return func(dst []bool, a, b []T) {
			for i, x := range a[:len(dst)] {
				dst[i] = x > b[i]
			}
		}
	case isGreaterEqual:
		return func(dst []bool, a, b []T) {
			for i, x := range a[:len(dst)] {
				dst[i] = x >= b[i]
			}
		}
	case isLess:
		return func(dst []bool, a, b []T) {
			for i, x := range a[:len(dst)] {
				dst[i] = x < b[i]
			}
		}
	case isLessEqual:
		return func(dst []bool, a, b []T) {
			for i, x := range a[:len(dst)] {
				dst[i] = x <= b[i]
			}
		}
	}
	return func(dst []bool, a, b []T) {
		for i, x := range a[:len(dst)] {
			dst[i] = x == b[i]
		}
	}
}

// compareRows compares under broadcasting.
func compareRows[T number | string](c *call, br broadcast, out []bool, a, b []T, op comparison) {
	f, sa, sb := comparer[T](op), br.rowStep(0), br.rowStep(1)
	br.rows(c.parallel, 1, func(at, n int, from []int) {
		x, y := along[T]{x: a, from: from[0], step: sa}, along[T]{x: b, from: from[1], step: sb}
		for lo := 0; lo < n; lo += gathered {
			dst := out[at+lo : at+min(lo+gathered, n)]
			f(dst, x.part(lo, len(dst)), y.part(lo, len(dst)))
		}
	})
}
