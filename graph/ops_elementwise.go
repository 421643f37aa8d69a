package graph

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
)

var elementwiseOps = []OpSpec{
	binary("Add", 1, "a + b", addElems),
	binary("Sub", 1, "a - b", subElems),
	binary("Mul", 1, "a * b", mulElems),
	binary("Div", 1, "a / b; integers truncate", quotientElems),
	binary("Pow", 1, "a to the power of b, in the type of a", nil),
	binary("Mod", 10, "remainder with the sign of b, or of a with fmod", nil),
	binary("BitShift", 11, "a shifted by b bits", nil),
	binary("BitwiseAnd", 18, "a and b", nil),
	binary("BitwiseOr", 18, "a or b", nil),
	binary("BitwiseXor", 18, "a xor b", nil),
	variadic("Max", "largest of all inputs", maxElems),
	variadic("Min", "smallest of all inputs", minElems),
	variadic("Sum", "sum of all inputs", addElems),
	variadic("Mean", "mean of all inputs", nil),
	unary("Abs", 1, "absolute value"), unary("Sign", 9, "-1, 0 or 1"),
	{Name: "Neg", Doc: "-x", Since: 1, Kind: KindElementwise, MinIn: 1, Infer: inferNeg},
	rounding("Ceil", 1, "smallest integer not below x"), rounding("Floor", 1, "largest integer not above x"),
	rounding("Round", 11, "nearest integer, ties to even"),
	unary("Sqrt", 1, "square root"), unary("Reciprocal", 1, "1 / x"), unary("Exp", 1, "e to the power of x"),
	unary("Log", 1, "natural logarithm"), unary("Erf", 9, "error function"), unary("BitwiseNot", 18, "complement"),
	unary("Sin", 7, "sine"), unary("Cos", 7, "cosine"), unary("Tan", 7, "tangent"),
	unary("Asin", 7, "arc sine"), unary("Acos", 7, "arc cosine"), unary("Atan", 7, "arc tangent"),
	unary("Sinh", 9, "hyperbolic sine"), unary("Cosh", 9, "hyperbolic cosine"),
	unary("Asinh", 9, "inverse of Sinh"), unary("Acosh", 9, "inverse of Cosh"), unary("Atanh", 9, "inverse of Tanh"),
}

func unary(name string, since int64, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindElementwise, MinIn: 1, Infer: inferSame}
}

// rounding is a unary operator that leaves integers as they are.
func rounding(name string, since int64, doc string) OpSpec {
	s := unary(name, since, doc)
	s.Infer = inferSameElems
	return s
}

func binary(name string, since int64, doc string, elem func(a, b Elem) Elem) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindElementwise, MinIn: 2,
		Infer: func(c *InferCtx) error { return inferBinary(c, elem) }}
}

func variadic(name, doc string, elem func(a, b Elem) Elem) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: 1, Kind: KindElementwise, MinIn: 1,
		Infer: func(c *InferCtx) error { return inferVariadic(c, elem) }}
}

func inferNeg(c *InferCtx) error {
	c.SetOut(0, c.DType(0), c.Shape(0))
	elems, ok := c.Elems(0)
	if !ok {
		return nil
	}
	out := make([]Elem, len(elems))
	for i, e := range elems {
		out[i] = subElems(known(0), e)
	}
	c.setInts(0, out)
	return nil
}

// inferSame gives output 0 the type of input 0.
func inferSame(c *InferCtx) error {
	c.SetOut(0, c.DType(0), c.Shape(0))
	return nil
}

// inferSameElems is inferSame for operators that do not change integers.
func inferSameElems(c *InferCtx) error {
	c.SetOut(0, c.DType(0), c.Shape(0))
	c.passElems()
	return nil
}

// passElems gives output 0 the elements of input 0 in their order.
func (c *InferCtx) passElems() {
	if elems, ok := c.Elems(0); ok {
		c.setInts(0, elems)
	}
}

func inferBinary(c *InferCtx, elem func(a, b Elem) Elem) error {
	s, err := binaryShape(c)
	if err != nil {
		return err
	}
	c.SetOut(0, c.DType(0), s)
	if a, b := c.DType(0), c.DType(1); a != b && a != tensor.Undefined && b != tensor.Undefined && c.Node.Op != "Pow" {
		return fmt.Errorf("inputs have types %s and %s", a, b)
	}
	c.combineElems(s, elem)
	return nil
}

// binaryShape is the shape of a binary operator with broadcasting. Before opset 7 the second input broadcasts to the first,
// from attribute axis on, if attribute broadcast is set.
func binaryShape(c *InferCtx) (Shape, error) {
	a, b := c.Shape(0), c.Shape(1)
	if c.Opset >= 7 || c.Opset == 0 || c.Node.Domain != "" || a == nil || b == nil {
		return Broadcast(a, b)
	}
	if c.Node.AttrInt("broadcast", 0) == 0 {
		if !sameShape(a, b) {
			return nil, fmt.Errorf("shapes %s and %s differ, and opset %d broadcasts only with attribute broadcast", a, b, c.Opset)
		}
		return a, nil
	}
	axis := c.Node.AttrInt("axis", int64(len(a)-len(b)))
	if axis < 0 || axis > int64(len(a)-len(b)) {
		return nil, fmt.Errorf("axis %d does not fit shapes %s and %s", axis, a, b)
	}
	for i, d := range b {
		if _, ok := mergeDim(a[int(axis)+i], d); !ok && d.N != 1 {
			return nil, fmt.Errorf("shapes %s and %s do not broadcast at axis %d", a, b, axis)
		}
	}
	return a, nil
}

// combineElems computes output 0, of shape s, from the elements of inputs of rank 0 and 1.
func (c *InferCtx) combineElems(s Shape, elem func(a, b Elem) Elem) {
	if elem == nil || s == nil || len(s) > 1 {
		return
	}
	acc, ok := c.Elems(0)
	for i := 1; i < c.NumIn() && ok; i++ {
		var next []Elem
		if next, ok = c.Elems(i); !ok || len(acc) != len(next) && len(acc) != 1 && len(next) != 1 {
			return
		}
		out := make([]Elem, max(len(acc), len(next)))
		if len(acc) == 0 || len(next) == 0 {
			out = nil
		}
		for k := range out {
			a, b := acc[k%len(acc)], next[k%len(next)]
			if out[k] = elem(a, b); c.DType(0).IsFloat() && c.Node.Op == "Div" && !out[k].Known {
				out[k] = divElems(a, b) // not rounded down
			}
			if c.DType(0).IsFloat() && a.Known && b.Known && (inexact(a, b, out[k]) || c.Node.Op == "Div" && (b.N == 0 || a.N%b.N != 0)) {
				out[k] = Elem{}
			}
		}
		acc = out
	}
	if ok {
		c.setInts(0, acc)
	}
}

// inexact reports whether an integer is beyond what float32 holds exactly.
func inexact(elems ...Elem) bool {
	for _, e := range elems {
		if abs64(e.N) > 1<<24 {
			return true
		}
	}
	return false
}

func inferVariadic(c *InferCtx, elem func(a, b Elem) Elem) error {
	shapes := make([]Shape, c.NumIn())
	for i := range shapes {
		shapes[i] = c.Shape(i)
		if d := c.DType(i); d != c.DType(0) && d != tensor.Undefined && c.DType(0) != tensor.Undefined {
			return fmt.Errorf("inputs have types %s and %s", c.DType(0), d)
		}
	}
	s, err := Broadcast(shapes...)
	if err != nil {
		return err
	}
	c.SetOut(0, c.DType(0), s)
	c.combineElems(s, elem)
	return nil
}

func maxElems(a, b Elem) Elem {
	if a.Known && b.Known {
		return known(max(a.N, b.N))
	}
	if a.Known && a.N <= 0 && b.nonNegative() {
		return b
	}
	if b.Known && b.N <= 0 && a.nonNegative() {
		return a
	}
	return Elem{}
}

func minElems(a, b Elem) Elem {
	if a.Known && b.Known {
		return known(min(a.N, b.N))
	}
	if a.Known && a.N == math.MaxInt64 {
		return b
	}
	if b.Known && b.N == math.MaxInt64 {
		return a
	}
	return Elem{}
}
