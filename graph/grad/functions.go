package grad

import (
	"math"

	"qwb/graph"
)

// functions are those of analysis, of one tensor.
var functions = map[string]rule{
	"Neg":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.op("Neg", dy) }),
	"Abs":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.op("Sign", x)) }),
	"Exp":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, y) }),
	"Log":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.op("Div", dy, x) }),
	"Sqrt":       unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.scale(t.op("Div", dy, y), 0.5) }),
	"Reciprocal": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.op("Neg", t.mul(dy, t.mul(y, y))) }),
	"Sin":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.op("Cos", x)) }),
	"Cos":        unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.op("Neg", t.mul(dy, t.op("Sin", x))) }),
	"Erf": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.mul(dy, t.scale(t.op("Exp", t.op("Neg", t.mul(x, x))), 2/math.Sqrt(math.Pi)))
	}),
	"Tan":  slope(func(t *tape, x, y graph.ValueID) graph.ValueID { return t.op("Add", t.mul(y, y), t.scalar(1)) }),
	"Sinh": slope(func(t *tape, x, y graph.ValueID) graph.ValueID { return t.op("Cosh", x) }),
	"Cosh": slope(func(t *tape, x, y graph.ValueID) graph.ValueID { return t.op("Sinh", x) }),
	"Asin": slope(func(t *tape, x, y graph.ValueID) graph.ValueID { return t.inverse(t.root(t.oneMinus(t.mul(x, x)))) }),
	"Acos": slope(func(t *tape, x, y graph.ValueID) graph.ValueID {
		return t.op("Neg", t.inverse(t.root(t.oneMinus(t.mul(x, x)))))
	}),
	"Atan": slope(func(t *tape, x, y graph.ValueID) graph.ValueID {
		return t.inverse(t.op("Add", t.mul(x, x), t.scalar(1)))
	}),
	"Asinh": slope(func(t *tape, x, y graph.ValueID) graph.ValueID {
		return t.inverse(t.root(t.op("Add", t.mul(x, x), t.scalar(1))))
	}),
	"Acosh": slope(func(t *tape, x, y graph.ValueID) graph.ValueID {
		return t.inverse(t.root(t.op("Sub", t.mul(x, x), t.scalar(1))))
	}),
	"Atanh": slope(func(t *tape, x, y graph.ValueID) graph.ValueID { return t.inverse(t.oneMinus(t.mul(x, x))) }),
}

// slope is the rule of a function y of x by its derivative.
func slope(f func(t *tape, x, y graph.ValueID) graph.ValueID) rule {
	return unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, f(t, x, y)) })
}

func (t *tape) inverse(x graph.ValueID) graph.ValueID { return t.op("Reciprocal", x) }
func (t *tape) root(x graph.ValueID) graph.ValueID    { return t.op("Sqrt", x) }
