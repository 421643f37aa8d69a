package device

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

var elementEmitters = merged(map[string]emitter{
	"Relu": emitLimit, "Clip": emitLimit,
	"Add": arithmetic(cuda.FloatAdd, cuda.IntegerAdd), "Sub": arithmetic(cuda.FloatSub, cuda.IntegerSub),
	"Mul": arithmetic(cuda.FloatMul, cuda.IntegerMul), "Div": arithmetic(cuda.FloatDiv, noIntegers),
	"PRelu": emitPRelu, "Pow": emitPow,
	"Max": variadic(cuda.FloatMaximum, cuda.IntegerMax), "Min": variadic(cuda.FloatMinimum, cuda.IntegerMin),
	"Sum": variadic(cuda.FloatAdd, noIntegers), "Mean": variadic(cuda.FloatAdd, noIntegers),
	"Where": emitWhere, "Cast": emitCast, "CastLike": emitCast, "Not": emitNot,
	"Equal": compared(cuda.CompareEqual), "Greater": compared(cuda.CompareGreater), "GreaterOrEqual": compared(cuda.CompareGreaterOrEqual),
	"Less": compared(cuda.CompareLess), "LessOrEqual": compared(cuda.CompareLessOrEqual),
	"And": compared(cuda.CompareAnd), "Or": compared(cuda.CompareOr), "Xor": compared(cuda.CompareXor),
}, functionEmitters())

// function is a function of one number with its parameters.
type function struct {
	f    cuda.FloatFunction
	a, b float32
}

// functions are the operators that are one, but for those of limitOf and powerOf.
var functions = map[string]func(n *graph.Node) function{
	"LeakyRelu":       withAlpha(cuda.FloatLeaky, 0.01),
	"ThresholdedRelu": withAlpha(cuda.FloatThreshold, 1),
	"Swish":           withAlpha(cuda.FloatSwish, 1),
	"Shrink": func(n *graph.Node) function {
		return function{cuda.FloatShrink, n.AttrFloat("bias", 0), n.AttrFloat("lambd", 0.5)}
	},
	"HardSigmoid": func(n *graph.Node) function {
		return function{cuda.FloatHardSigmoid, n.Alpha(), n.Beta()}
	},
	"Gelu": func(n *graph.Node) function {
		if n.TanhGelu() {
			return function{f: cuda.FloatGeluTanh}
		}
		return function{f: cuda.FloatGelu}
	},
	"HardSwish": plain(cuda.FloatHardSwish), "Sigmoid": plain(cuda.FloatSigmoid), "Tanh": plain(cuda.FloatTanh), "Erf": plain(cuda.FloatErf),
	"Exp": plain(cuda.FloatExp), "Log": plain(cuda.FloatLog), "Softsign": plain(cuda.FloatSoftsign), "Sqrt": plain(cuda.FloatSqrt),
	"Reciprocal": plain(cuda.FloatReciprocal), "Floor": plain(cuda.FloatFloor), "Ceil": plain(cuda.FloatCeil), "Round": plain(cuda.FloatRound),
	"Abs": plain(cuda.FloatAbs), "Neg": plain(cuda.FloatNeg), "Sign": plain(cuda.FloatSign),
}

func plain(f cuda.FloatFunction) func(*graph.Node) function {
	return func(*graph.Node) function { return function{f: f} }
}

func withAlpha(f cuda.FloatFunction, def float32) func(*graph.Node) function {
	return func(n *graph.Node) function { return function{f: f, a: n.AttrFloat("alpha", def)} }
}

func functionEmitters() map[string]emitter {
	table := map[string]emitter{}
	for op, of := range functions {
		table[op] = func(e *emission) error { return e.unary(of(e.n)) }
	}
	return table
}

// functionOf returns what a node computes of input 0 alone, element by element.
func (p *Plan) functionOf(n *graph.Node) (function, bool) {
	if l, ok := p.limitOf(n); ok {
		return function{cuda.FloatLimit, l.lo, l.hi}, true
	}
	if n.Op == "Pow" {
		f, err := p.powerOf(n)
		return f, err == nil
	}
	of := functions[n.Op]
	if of == nil {
		return function{}, false
	}
	return of(n), true
}

// unary emits a function of input 0, and what follows it.
func (e *emission) unary(f function) error {
	if e.dtype(0) != tensor.Float32 {
		return onHost("element type " + e.dtype(0).String())
	}
	c := e.chainOf(operand{e.raw(0), e.shape(0), e.layout(0)})
	c.one(f)
	c.emit()
	return nil
}

// limit are bounds.
type limit struct{ lo, hi float32 }

// limitOf returns the bounds of a Relu or Clip if they are known.
func (p *Plan) limitOf(n *graph.Node) (limit, bool) {
	lo, hi, ok := graph.LimitsOf(n, p.s.g.Opset(""), func(v graph.ValueID) *tensor.Tensor { return p.vals[v].known })
	return limit{lo, hi}, ok
}

// emitLimit serves Relu and Clip. Limits that depend on data are applied one after the other.
func emitLimit(e *emission) error {
	if l, ok := e.p.limitOf(e.n); ok {
		return e.unary(function{cuda.FloatLimit, l.lo, l.hi})
	}
	if err := e.floats(); err != nil {
		return err
	}
	for i := 1; i < 3; i++ {
		if e.has(i) && tensor.Count(e.shape(i)) != 1 {
			return onHost("limits that are not one number")
		}
	}
	shape, layout := e.shape(0), e.layout(0)
	x, dst := operand{e.raw(0), shape, layout}, e.make(0, layout)
	for i, op := range []cuda.FloatOperation{1: cuda.FloatAtLeast, 2: cuda.FloatAtMost} {
		if i > 0 && e.has(i) {
			e.binary(cuda.FloatBinary{Op: op}, dst, shape, layout, x, operand{e.raw(i), []int{}, tensor.RowMajor}, -1)
			x.loc = dst
		}
	}
	return nil
}

// legacyAxis returns where operands of lower rank are placed: opsets before 7 have an attribute for it, -1 is the end.
func (e *emission) legacyAxis() int {
	axis, _ := e.n.AlignsByAttribute(e.opset)
	return axis
}

// noIntegers stands for an operator without a kernel for integers.
const noIntegers cuda.IntegerOperation = -1

// integers emits a function of integers of one type, folded from the left; ok is false for other types.
func (e *emission) integers(op cuda.IntegerOperation) (ok bool) {
	d := e.dtype(0)
	number, known := numbers[d]
	if op == noIntegers || !known || d == tensor.Float32 || d == tensor.Bool || len(e.n.Inputs) < 2 {
		return false
	}
	for i := range e.n.Inputs {
		if e.dtype(i) != d {
			return false
		}
	}
	shape, axis := e.out[0].shape, e.legacyAxis()
	in, layout := e.operands(shape)
	dst := e.make(0, layout)
	acc := in[0]
	for _, o := range in[1:] {
		a, b := acc, o
		sizes, steps := inMemory(shape, layout, aligned(a.shape, a.layout, len(shape), axis), aligned(b.shape, b.layout, len(shape), axis))
		e.launch(func(s *cuda.Stream, m *ports) error {
			return cuda.CombineIntegers(s, op, number, m.ptr(dst), m.ptr(a.loc), m.ptr(b.loc), sizes, steps[0], steps[1])
		}, dst, a.loc, b.loc)
		acc = operand{dst, shape, layout}
	}
	return true
}

func arithmetic(op cuda.FloatOperation, integer cuda.IntegerOperation) emitter {
	return func(e *emission) error {
		if e.integers(integer) {
			return nil
		}
		if err := e.floats(); err != nil {
			return err
		}
		in, layout := e.operands(e.out[0].shape)
		for k, x := range in {
			if len(in) == 2 && e.opset >= 7 && slices.Equal(x.shape, e.out[0].shape) && (x.layout == layout || sameOrder(x.shape)) {
				c := e.chainOf(operand{x.loc, x.shape, layout})
				c.two(op, in[1-k], k == 1)
				c.emit()
				return nil
			}
		}
		f := cuda.FloatBinary{Op: op}
		v := e.n.Outputs[0]
		if op == cuda.FloatAdd {
			if l, node, ok := e.limited(v); ok {
				f.Limited, f.Lo, f.Hi, v = true, l.lo, l.hi, node.Outputs[0]
			}
		}
		e.binary(f, e.makeAs(v, tensor.Float32, e.out[0].shape, layout), e.out[0].shape, layout, in[0], in[1], e.legacyAxis())
		return nil
	}
}

// limited returns the bounds of the node that alone reads v, if it is a Relu or Clip, whose result is then to be computed at once.
func (e *emission) limited(v valueID) (l limit, n *graph.Node, ok bool) {
	if e.p.s.opt.Unfused || e.p.watched[v] {
		return l, nil, false
	}
	use, sole := e.p.s.g.SoleUse(v)
	if !sole || use.Index != 0 {
		return l, nil, false
	}
	n = e.p.s.g.Node(use.Node)
	if l, ok = e.p.limitOf(n); ok {
		e.p.absorbed[use.Node] = true
	}
	return l, n, ok
}

// binary emits dst = a op b, broadcast to shape.
func (e *emission) binary(f cuda.FloatBinary, dst *loc, shape []int, layout tensor.Layout, a, b operand, axis int) {
	sizes, steps := inMemory(shape, layout, aligned(a.shape, a.layout, len(shape), axis), aligned(b.shape, b.layout, len(shape), axis))
	f.Sizes, f.AStep, f.BStep = sizes, steps[0], steps[1]
	e.launch(func(s *cuda.Stream, m *ports) error { return f.Launch(s, m.ptr(dst), m.ptr(a.loc), m.ptr(b.loc)) }, dst, a.loc, b.loc)
}

func variadic(op cuda.FloatOperation, integer cuda.IntegerOperation) emitter {
	return func(e *emission) error {
		if e.integers(integer) {
			return nil
		}
		if err := e.floats(); err != nil {
			return err
		}
		shape := e.out[0].shape
		if len(e.n.Inputs) == 1 {
			e.pass(0, 0)
			return nil
		}
		in, layout := e.operands(shape)
		dst := e.make(0, layout)
		acc := in[0]
		for _, o := range in[1:] {
			e.binary(cuda.FloatBinary{Op: op}, dst, shape, layout, acc, o, -1)
			acc = operand{dst, shape, layout}
		}
		if e.n.Op == "Mean" {
			n := operand{e.p.table(asBytes([]float32{float32(len(in))})), []int{}, tensor.RowMajor}
			e.binary(cuda.FloatBinary{Op: cuda.FloatDiv}, dst, shape, layout, acc, n, -1)
		}
		return nil
	}
}

// pass makes output i input k in its layout.
func (e *emission) pass(i, k int) {
	h := *e.held(k)
	l := e.raw(k)
	e.p.vals[e.n.Outputs[i]] = held{dtype: h.dtype, shape: e.out[i].shape, layout: h.layout, loc: l, ready: true}
}

func emitPRelu(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	axis := -1
	if e.opset < 7 {
		axis = 1
	}
	shape := e.shape(0)
	if len(e.shape(1)) > len(shape) {
		return onHost("a slope of higher rank")
	}
	in, layout := e.operands(shape)
	e.binary(cuda.FloatBinary{Op: cuda.FloatPRelu}, e.make(0, layout), shape, layout, in[0], in[1], axis)
	return nil
}

func emitPow(e *emission) error {
	f, err := e.p.powerOf(e.n)
	if err != nil {
		return err
	}
	return e.unary(f)
}

// powerOf returns the function for a constant exponent for which the power rounded once is known to be a product.
func (p *Plan) powerOf(n *graph.Node) (function, error) {
	h := &p.vals[n.Inputs[1]]
	if h.known == nil || h.known.Len() != 1 || len(h.shape) > len(p.vals[n.Inputs[0]].shape) {
		return function{}, onHost("an exponent that depends on data")
	}
	var y float64
	switch d := h.known.Data.(type) {
	case []float32:
		y = float64(d[0])
	case []int32:
		y = float64(d[0])
	case []int64:
		y = float64(d[0])
	}
	switch y {
	case 2:
		return function{f: cuda.FloatSquare}, nil
	case 3:
		return function{f: cuda.FloatCube}, nil
	}
	return function{}, onHost("an exponent other than 2 and 3")
}

func emitWhere(e *emission) error {
	size := sizeOf(e.dtype(1))
	if e.dtype(0) != tensor.Bool || e.dtype(1) != e.dtype(2) {
		return onHost("operands of different types")
	}
	shape := e.out[0].shape
	in, layout := e.operands(shape)
	dst := e.make(0, layout)
	sizes, steps := inMemory(shape, layout, in[0].steps(shape), in[1].steps(shape), in[2].steps(shape))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.Select(s, m.ptr(dst), m.ptr(in[0].loc), m.ptr(in[1].loc), m.ptr(in[2].loc), size, sizes, steps[0], steps[1], steps[2])
	}, dst, in[0].loc, in[1].loc, in[2].loc)
	return nil
}

func (o operand) steps(shape []int) []int { return aligned(o.shape, o.layout, len(shape), -1) }

// numbers are the element types of comparisons and conversions.
var numbers = map[tensor.DType]cuda.Number{tensor.Float32: cuda.NumberFloat32, tensor.Bool: cuda.NumberBool, tensor.Int8: cuda.NumberInt8,
	tensor.Uint8: cuda.NumberUint8, tensor.Int16: cuda.NumberInt16, tensor.Uint16: cuda.NumberUint16, tensor.Int32: cuda.NumberInt32,
	tensor.Uint32: cuda.NumberUint32, tensor.Int64: cuda.NumberInt64}

func compared(op cuda.Comparison) emitter {
	return func(e *emission) error {
		d := e.dtype(0)
		number, ok := numbers[d]
		logic := op >= cuda.CompareAnd
		if !ok || d != e.dtype(1) || logic != (d == tensor.Bool) && op != cuda.CompareEqual {
			return onHost("element type " + d.String())
		}
		shape := e.out[0].shape
		in, layout := e.operands(shape)
		dst, axis := e.make(0, layout), e.legacyAxis()
		sizes, steps := inMemory(shape, layout, aligned(in[0].shape, in[0].layout, len(shape), axis),
			aligned(in[1].shape, in[1].layout, len(shape), axis))
		e.launch(func(s *cuda.Stream, m *ports) error {
			return cuda.Compare(s, op, number, m.ptr(dst), m.ptr(in[0].loc), m.ptr(in[1].loc), sizes, steps[0], steps[1])
		}, dst, in[0].loc, in[1].loc)
		return nil
	}
}

// emitNot compares with false.
func emitNot(e *emission) error {
	if e.dtype(0) != tensor.Bool {
		return onHost("element type " + e.dtype(0).String())
	}
	src, no := e.raw(0), e.p.table([]byte{0})
	dst := e.make(0, e.layout(0))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.Compare(s, cuda.CompareEqual, cuda.NumberBool, m.ptr(dst), m.ptr(src), m.ptr(no), []int{dst.bytes}, []int{1}, []int{0})
	}, dst, src, no)
	return nil
}

func emitCast(e *emission) error {
	from, to := e.dtype(0), e.out[0].dtype
	if from == to {
		e.pass(0, 0)
		return nil
	}
	f, ok := numbers[from]
	t, known := numbers[to]
	if !ok || !known {
		return onHost("from " + from.String() + " to " + to.String())
	}
	src := e.raw(0)
	dst := e.make(0, e.layout(0))
	count := dst.bytes / sizeOf(to)
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.CastElements(s, m.ptr(dst), t, m.ptr(src), f, count)
	}, dst, src)
	return nil
}
