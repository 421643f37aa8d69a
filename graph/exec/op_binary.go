package exec

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
)

// binaryEvals are the arithmetic operators of two (or any number of) broadcast operands.
var binaryEvals = []evaluator{
	{"Add", arithmetic(opAdd)},
	{"Sub", arithmetic(opSub)},
	{"Mul", arithmetic(opMul)},
	{"Div", arithmetic(opDiv)},
	{"Mod", buildMod},
	{"Pow", buildPow},
	{"PRelu", buildPRelu},
	{"Max", variadic(opMax)},
	{"Min", variadic(opMin)},
	{"Sum", variadic(opAdd)},
	{"Mean", variadic(opMean)},
	{"BitwiseAnd", arithmetic(opBitAnd)},
	{"BitwiseOr", arithmetic(opBitOr)},
	{"BitwiseXor", arithmetic(opBitXor)},
	{"BitShift", buildBitShift},
}

type arithOp uint8

const (
	opAdd arithOp = iota
	opSub
	opMul
	opDiv
	opMax
	opMin
	opMean
	opMod  // the sign of the divisor, as Python's %
	opFmod // the sign of the dividend, as C's fmod
	opBitAnd
	opBitOr
	opBitXor
	opShiftLeft
	opShiftRight
)

// legacyAxis returns where operands of lower rank are placed: opsets before 7 have an attribute for it, -1 is the end.
func legacyAxis(n *graph.Node, version int64) int {
	axis, _ := n.AlignsByAttribute(version)
	return axis
}

func arithmetic(op arithOp) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, version int64) (evalFunc, error) {
		axis := legacyAxis(n, version)
		return func(c *call) error {
			in, layout := c.operands(c.outShape(0))
			out, err := c.outIn(0, layout)
			if err != nil {
				return err
			}
			return combine(c, op, axis, out, in[0], in[1])
		}, nil
	}
}

func buildMod(n *graph.Node, version int64) (evalFunc, error) {
	if n.AttrInt("fmod", 0) != 0 {
		return arithmetic(opFmod)(n, version)
	}
	return arithmetic(opMod)(n, version)
}

func buildBitShift(n *graph.Node, version int64) (evalFunc, error) {
	if n.AttrStr("direction", "") == "LEFT" {
		return arithmetic(opShiftLeft)(n, version)
	}
	return arithmetic(opShiftRight)(n, version)
}

// variadic folds any number of operands from the left.
func variadic(op arithOp) func(*graph.Node, int64) (evalFunc, error) {
	fold := op
	if op == opMean {
		fold = opAdd
	}
	return simple(func(c *call) error {
		in, layout := c.operands(c.outShape(0))
		if len(in) == 1 {
			return c.pass(0, 0)
		}
		out, err := c.outIn(0, layout)
		if err != nil {
			return err
		}
		acc := in[0]
		for _, t := range in[1:] {
			if t.DType != in[0].DType {
				return fmt.Errorf("operands of different types: %s and %s", in[0].Type(), t.Type())
			}
			if err := combine(c, fold, -1, out, acc, t); err != nil {
				return err
			}
			acc = out
		}
		if op == opMean {
			n, err := castTo(out.DType, tensor.FromF32([]float32{float32(len(in))}, 1))
			if err != nil {
				return err
			}
			return combine(c, opDiv, -1, out, acc, &tensor.Tensor{DType: out.DType, Data: n})
		}
		return nil
	})
}

// combine computes out = a op b. out may be a.
func combine(c *call, op arithOp, axis int, out, a, b *tensor.Tensor) error {
	if a.DType != b.DType || a.DType != out.DType {
		return fmt.Errorf("operands of different types: %s and %s", a.Type(), b.Type())
	}
	br := broadcastTo(out.Shape, out.Layout, axis, a, b)
	switch d := out.Data.(type) {
	case []float32:
		return combineF32(c, op, br, d, a.F32(), b.F32())
	case []float64:
		return combineFloat(c, op, br, d, tensor.Of[float64](a), tensor.Of[float64](b))
	case []int8:
		return combineInt(c, op, br, d, tensor.Of[int8](a), tensor.Of[int8](b))
	case []int16:
		return combineInt(c, op, br, d, tensor.Of[int16](a), tensor.Of[int16](b))
	case []int32:
		return combineInt(c, op, br, d, tensor.Of[int32](a), tensor.Of[int32](b))
	case []int64:
		return combineInt(c, op, br, d, a.I64(), b.I64())
	case []uint8:
		return combineInt(c, op, br, d, tensor.Of[uint8](a), tensor.Of[uint8](b))
	case []uint32:
		return combineInt(c, op, br, d, tensor.Of[uint32](a), tensor.Of[uint32](b))
	case []uint64:
		return combineInt(c, op, br, d, tensor.Of[uint64](a), tensor.Of[uint64](b))
	case []uint16:
		if a.DType == tensor.Uint16 {
			return combineInt(c, op, br, d, tensor.Of[uint16](a), tensor.Of[uint16](b))
		}
	}
	return badType(0, a.DType)
}

// chunk is how many elements are taken through an operation and its bounds at a time: they stay in the cache.
const chunk = 1 << 14

func combineF32(c *call, op arithOp, br broadcast, out, a, b []float32) error {
	k := c.run.s.table
	lo, hi, limited := c.limits()
	sa, sb := br.rowStep(0), br.rowStep(1)
	if op > opDiv || sa != 1 && sb != 1 || max(sa, sb) > 1 || min(sa, sb) < 0 {
		err := combineFloat(c, op, br, out, a, b)
		if limited {
			k.Limits(out, out, lo, hi)
		}
		return err
	}
	br.rows(c.parallel, 1, func(at, n int, from []int) {
		for done := 0; done < n; done += chunk {
			m := min(chunk, n-done)
			dst := out[at+done:][:m]
			switch {
			case sb == 0:
				scalarF32(k, op, dst, a[from[0]+done:][:m], b[from[1]])
			case sa == 0:
				scalarLeftF32(k, op, dst, a[from[0]], b[from[1]+done:][:m])
			default:
				vectorF32(k, op, dst, a[from[0]+done:][:m], b[from[1]+done:][:m])
			}
			if limited {
				k.Limits(dst, dst, lo, hi)
			}
		}
	})
	return nil
}

// vectorF32 is dst[i] = a[i] op b[i] for the four basic operations.
func vectorF32(t *kernels.Table, op arithOp, dst, a, b []float32) {
	switch op {
	case opAdd:
		t.Add(dst, a, b)
	case opSub:
		t.Sub(dst, a, b)
	case opMul:
		t.Mul(dst, a, b)
	default:
		t.Div(dst, a, b)
	}
}

// scalarF32 is dst[i] = a[i] op b.
func scalarF32(t *kernels.Table, op arithOp, dst, a []float32, b float32) {
	switch op {
	case opAdd:
		t.AddScalar(dst, a, b)
	case opSub:
		t.AddScalar(dst, a, -b)
	case opMul:
		t.MulScalar(dst, a, b)
	default:
		t.DivScalar(dst, a, b)
	}
}

// scalarLeftF32 is dst[i] = a op b[i].
func scalarLeftF32(t *kernels.Table, op arithOp, dst []float32, a float32, b []float32) {
	switch op {
	case opAdd:
		t.AddScalar(dst, b, a)
	case opSub:
		t.ScalarSub(dst, a, b)
	case opMul:
		t.MulScalar(dst, b, a)
	default:
		t.ScalarDiv(dst, a, b)
	}
}

func combineFloat[T float32 | float64](c *call, op arithOp, br broadcast, out, a, b []T) error {
	f := floatFunc[T](op)
	if f == nil {
		return errors.New("integers expected")
	}
	zip(c, br, out, a, b, 2, f)
	return nil
}

func floatFunc[T float32 | float64](op arithOp) func(x, y T) T {
	switch op {
	case opAdd:
		return func(x, y T) T { return x + y }
	case opSub:
		return func(x, y T) T { return x - y }
	case opMul:
		return func(x, y T) T { return x * y }
	case opDiv:
		return func(x, y T) T { return x / y }
	case opMax:
		return func(x, y T) T { return max(x, y) }
	case opMin:
		return func(x, y T) T { return min(x, y) }
	case opFmod:
		return func(x, y T) T { return T(math.Mod(float64(x), float64(y))) }
	case opMod:
		return func(x, y T) T {
			m := math.Mod(float64(x), float64(y))
			if m != 0 && (m < 0) != (y < 0) {
				m += float64(y)
			}
			return T(m)
		}
	}
	return nil
}

func combineInt[T integer](c *call, op arithOp, br broadcast, out, a, b []T) error {
	if (op == opDiv || op == opMod || op == opFmod) && slices.Contains(b, 0) && len(out) > 0 {
		return errors.New("integer division by zero")
	}
	f := intFunc[T](op)
	zip(c, br, out, a, b, 2, f)
	return nil
}

func intFunc[T integer](op arithOp) func(x, y T) T {
	switch op {
	case opAdd:
		return func(x, y T) T { return x + y }
	case opSub:
		return func(x, y T) T { return x - y }
	case opMul:
		return func(x, y T) T { return x * y }
	case opDiv:
		return func(x, y T) T { return x / y }
	case opMax:
		return func(x, y T) T { return max(x, y) }
	case opMin:
		return func(x, y T) T { return min(x, y) }
	case opFmod:
		return func(x, y T) T { return x % y }
	case opBitAnd:
		return func(x, y T) T { return x & y }
	case opBitOr:
		return func(x, y T) T { return x | y }
	case opBitXor:
		return func(x, y T) T { return x ^ y }
	case opShiftLeft:
		return func(x, y T) T { return x << uint64(y) }
	case opShiftRight:
		return func(x, y T) T { return x >> uint64(y) }
	}
	return func(x, y T) T { // opMod
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
}

// buildPow computes base ** exponent in the type of the base; the exponent may have another type. Floats are computed in float64 and
// rounded once; integers to the power of integers are multiplied, and wrap.
func buildPow(n *graph.Node, version int64) (evalFunc, error) {
	axis := legacyAxis(n, version)
	return func(c *call) error {
		in, layout := c.operands(c.outShape(0))
		out, err := c.outIn(0, layout)
		if err != nil {
			return err
		}
		br := broadcastTo(out.Shape, out.Layout, axis, in[0], in[1])
		if in[1].DType.IsInteger() && in[0].DType.IsInteger() {
			switch base := in[0].Data.(type) {
			case []int32:
				zip(c, br, tensor.Of[int32](out), base, numbersOf[int64](in[1]), 16, intPow[int32])
			case []int64:
				zip(c, br, out.I64(), base, numbersOf[int64](in[1]), 16, intPow[int64])
			default:
				return badType(0, in[0].DType)
			}
			return nil
		}
		exponent, err := float64s(in[1])
		if err != nil {
			return err
		}
		switch base := in[0].Data.(type) {
		case []float32:
			f := func(x float32, y float64) float32 { return float32(elementary.Pow(float64(x), y)) }
			if len(exponent) == 1 && exponent[0] == 2 { // the same to the bit, and much faster
				f = func(x float32, _ float64) float32 { return x * x }
			}
			zip(c, br, out.F32(), base, exponent, 16, f)
		case []float64:
			zip(c, br, tensor.Of[float64](out), base, exponent, 16, elementary.Pow)
		case []int32:
			zip(c, br, tensor.Of[int32](out), base, exponent, 16, func(x int32, y float64) int32 { return int32(elementary.Pow(float64(x), y)) })
		case []int64:
			zip(c, br, out.I64(), base, exponent, 16, func(x int64, y float64) int64 { return int64(elementary.Pow(float64(x), y)) })
		default:
			return badType(0, in[0].DType)
		}
		return nil
	}, nil
}

// intPow is x to the power of y, truncated: below 0 that is 0 unless x is 1 or -1.
func intPow[T int32 | int64](x T, y int64) T {
	if y < 0 {
		switch {
		case x == 1 || x == -1 && y%2 == 0:
			return 1
		case x == -1:
			return -1
		}
		return 0
	}
	p := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 != 0 {
			p *= x
		}
		x *= x
	}
	return p
}

// float64s returns the elements of a tensor of numbers as float64.
func float64s(t *tensor.Tensor) ([]float64, error) {
	if t == nil {
		return nil, errors.New("an input is missing")
	}
	if d := numbersOf[float64](t); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("element type %s is not supported", t.DType)
}

// buildPRelu is x where x >= 0, else slope * x. The slope is broadcast to x; before opset 7 it has one element per channel.
func buildPRelu(_ *graph.Node, version int64) (evalFunc, error) {
	axis := -1
	if version < 7 {
		axis = 1
	}
	return func(c *call) error {
		if err := c.sameTypes(); err != nil {
			return err
		}
		in, layout := c.operands(c.raw(0).Shape)
		out, err := c.outIn(0, layout)
		if err != nil {
			return err
		}
		br := broadcastTo(out.Shape, out.Layout, axis, in[0], in[1])
		switch d := out.Data.(type) {
		case []float32:
			zip(c, br, d, in[0].F32(), in[1].F32(), 2, prelu[float32])
		case []float64:
			zip(c, br, d, tensor.Of[float64](in[0]), tensor.Of[float64](in[1]), 2, prelu[float64])
		case []int32:
			zip(c, br, d, tensor.Of[int32](in[0]), tensor.Of[int32](in[1]), 2, prelu[int32])
		case []int64:
			zip(c, br, d, in[0].I64(), in[1].I64(), 2, prelu[int64])
		case []uint32:
			zip(c, br, d, tensor.Of[uint32](in[0]), tensor.Of[uint32](in[1]), 2, prelu[uint32])
		case []uint64:
			zip(c, br, d, tensor.Of[uint64](in[0]), tensor.Of[uint64](in[1]), 2, prelu[uint64])
		default:
			return badType(0, out.DType)
		}
		return nil
	}, nil
}

func prelu[T number](x, slope T) T {
	if x < 0 {
		return slope * x
	}
	return x
}
