package grad

import (
	"math"

	"qwb/graph"
)

// activations are functions of one tensor as networks have them; formulas follow from the definitions of ONNX's operators.
var activations = map[string]rule{
	"Relu": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.where(t.op("Greater", y, t.scalar(0)), dy, t.scalar(0))
	}),
	"LeakyRelu": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.where(t.op("Less", x, t.scalar(0)), t.scale(dy, float64(t.n.Alpha())), dy)
	}),
	"ThresholdedRelu": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.where(t.op("Greater", x, t.scalar(float64(t.n.Alpha()))), dy, t.scalar(0))
	}),
	"PRelu": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		negative := t.op("Less", t.x(0), t.scalar(0))
		if i == 1 {
			return t.where(negative, t.mul(dy, t.x(0)), t.scalar(0))
		}
		return t.where(negative, t.mul(dy, t.x(1)), dy)
	}),
	"Clip": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.where(t.op("Equal", x, y), dy, t.scalar(0))
	}),
	"Sigmoid": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.mul(y, t.oneMinus(y))) }),
	"Tanh":    unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.oneMinus(t.mul(y, y))) }),
	"HardSigmoid": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		inside := t.op("And", t.op("Greater", y, t.scalar(0)), t.op("Less", y, t.scalar(1)))
		return t.where(inside, t.scale(dy, float64(t.n.Alpha())), t.scalar(0))
	}),
	"HardSwish": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		inner := t.mul(dy, t.op("Add", t.scale(x, 1.0/3), t.scalar(0.5)))
		above := t.where(t.op("Less", x, t.scalar(3)), inner, dy)
		return t.where(t.op("Greater", x, t.scalar(-3)), above, t.scalar(0))
	}),
	"Elu": exponential(func(n *graph.Node) (float64, float64, float64) { a := float64(n.Alpha()); return 1, 1, a }),
	"Selu": exponential(func(n *graph.Node) (float64, float64, float64) {
		gamma := float64(n.AttrFloat("gamma", 1.05070102214813232421875))
		return gamma, 1, gamma * float64(n.AttrFloat("alpha", 1.67326319217681884765625))
	}),
	"Celu":     exponential(func(n *graph.Node) (float64, float64, float64) { return 1, 1 / float64(n.Alpha()), 1 }),
	"Softplus": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.op("Sigmoid", x)) }),
	"Softsign": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		d := t.op("Add", t.op("Abs", x), t.scalar(1))
		return t.op("Div", dy, t.mul(d, d))
	}),
	"Gelu": unary(gelu),
	"Mish": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		th := t.op("Tanh", t.op("Softplus", x))
		return t.mul(dy, t.op("Add", th, t.mul(t.mul(x, t.op("Sigmoid", x)), t.oneMinus(t.mul(th, th)))))
	}),
	"Swish": unary(swish),
	"Shrink": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		return t.where(t.op("Greater", t.op("Abs", x), t.scalar(float64(t.n.AttrFloat("lambd", 0.5)))), dy, t.scalar(0))
	}),
	"com.microsoft::QuickGelu": unary(swish),
	"com.microsoft::Gelu":      unary(gelu),
	"com.microsoft::BiasGelu":  biasedGelu(false),
	"com.microsoft::FastGelu":  biasedGelu(true),
}

func swish(t *tape, x, y, dy graph.ValueID) graph.ValueID {
	alpha := float64(t.n.Alpha())
	return t.mul(dy, t.swishSlope(t.op("Sigmoid", t.scale(x, alpha)), y, alpha))
}

// swishSlope is the slope of y = x s with s the sigmoid of alpha x.
func (t *tape) swishSlope(s, y graph.ValueID, alpha float64) graph.ValueID {
	return t.op("Add", s, t.mul(t.scale(y, alpha), t.oneMinus(s)))
}

func (t *tape) oneMinus(x graph.ValueID) graph.ValueID { return t.op("Sub", t.scalar(1), x) }

// exponential is the rule of what has a slope above 0, and an exponential below whose slope is its value times a factor plus an addend.
func exponential(of func(n *graph.Node) (slope, factor, addend float64)) rule {
	return unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		slope, factor, addend := of(&t.n)
		below := t.mul(dy, t.op("Add", t.scale(y, factor), t.scalar(addend)))
		return t.where(t.op("Greater", x, t.scalar(0)), t.scale(dy, slope), below)
	})
}

func gelu(t *tape, x, _, dy graph.ValueID) graph.ValueID {
	return t.mul(dy, t.geluSlope(x, t.n.TanhGelu()))
}

// biasedGelu is the rule of a Gelu of the sum of x and, where it is there, a bias along the last axis.
func biasedGelu(tanh bool) rule {
	return func(t *tape, dy []graph.ValueID) []graph.ValueID {
		x := t.x(0)
		if t.x(1) != graph.NoValue {
			x = t.op("Add", x, t.x(1))
		}
		list := t.only(0, t.mul(dy[0], t.geluSlope(x, tanh)))
		if t.wants(1) {
			list[1] = t.back(list[0], 1)
		}
		return list
	}
}

func (t *tape) geluSlope(x graph.ValueID, tanh bool) graph.ValueID {
	square := t.mul(x, x)
	if !tanh { // P(x) + x p(x), of the standard normal distribution
		p := t.scale(t.op("Exp", t.scale(square, -0.5)), 1/math.Sqrt(2*math.Pi))
		whole := t.scale(t.op("Add", t.op("Erf", t.scale(x, math.Sqrt2/2)), t.scalar(1)), 0.5)
		return t.op("Add", whole, t.mul(x, p))
	}
	const c, cubic = 0.044715, 0.7978845608028654 // sqrt(2/pi)
	th := t.op("Tanh", t.scale(t.mul(x, t.op("Add", t.scale(square, c), t.scalar(1))), cubic))
	slope := t.scale(t.op("Add", t.scale(square, 3*c), t.scalar(1)), cubic)
	inner := t.mul(t.mul(x, t.oneMinus(t.mul(th, th))), slope)
	return t.scale(t.op("Add", t.op("Add", th, t.scalar(1)), inner), 0.5)
}
