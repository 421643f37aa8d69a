package grad

import (
	"fmt"

	"qwb/graph"
)

// elementwise are operators that compute element by element of several tensors, which are broadcast, and functions of one.
var elementwise = map[string]rule{
	"Add": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID { return dy }),
	"Sum": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID { return dy }),
	"Mean": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		return t.scale(dy, 1/float64(len(t.n.Inputs)))
	}),
	"Sub": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		if i == 1 {
			return t.op("Neg", dy)
		}
		return dy
	}),
	"Mul": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID { return t.mul(dy, t.x(1-i)) }),
	"Div": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		d := t.op("Div", dy, t.x(1))
		if i == 1 {
			d = t.op("Neg", t.mul(d, t.y()))
		}
		return d
	}),
	"Pow": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		if i == 1 {
			return t.mul(dy, t.mul(t.y(), t.op("Log", t.x(0))))
		}
		less := t.op("Sub", t.x(1), t.scalar(1))
		return t.mul(dy, t.mul(t.x(1), t.op("Pow", t.x(0), less)))
	}),
	"Mod": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		if i == 1 { // how often b is taken away stays
			return t.mul(dy, t.op("Div", t.op("Sub", t.y(), t.x(0)), t.x(1)))
		}
		return dy
	}),
	"SwiGLU": broadcasting(func(t *tape, i int, dy graph.ValueID) graph.ValueID {
		alpha := float64(t.n.Alpha())
		s := t.op("Sigmoid", t.scale(t.x(0), alpha))
		swish := t.mul(t.x(0), s)
		if i == 1 {
			return t.mul(dy, swish)
		}
		return t.mul(t.mul(dy, t.x(1)), t.swishSlope(s, swish, alpha))
	}),
	"Max": extremum,
	"Min": extremum,
	"Where": func(t *tape, dy []graph.ValueID) []graph.ValueID {
		list, zero := t.only(0, graph.NoValue), t.scalar(0)
		if t.wants(1) {
			list[1] = t.back(t.where(t.x(0), dy[0], zero), 1)
		}
		if t.wants(2) {
			list[2] = t.back(t.where(t.x(0), zero, dy[0]), 2)
		}
		return list
	},

	"Identity": unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return dy }),
	"Dropout":  unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return dy }),
	"Round":    unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID { return dy }),
	"Cast":     unary(cast),
	"CastLike": unary(cast),
}

func cast(t *tape, x, _, dy graph.ValueID) graph.ValueID {
	if from := t.G.Value(x).DType; from != t.dtype {
		t.fail(fmt.Errorf("the gradient would have to pass from %s to %s", t.dtype, from))
	}
	return dy
}

// unary is the rule of a function of one tensor; parameters that follow it have no gradient.
func unary(f func(t *tape, x, y, dy graph.ValueID) graph.ValueID) rule {
	return func(t *tape, dy []graph.ValueID) []graph.ValueID { return t.only(0, f(t, t.x(0), t.y(), dy[0])) }
}

// broadcasting is the rule of a function of tensors that are broadcast: f is the gradient of input i, of the result's shape.
func broadcasting(f func(t *tape, i int, dy graph.ValueID) graph.ValueID) rule {
	return func(t *tape, dy []graph.ValueID) []graph.ValueID {
		list := t.only(0, graph.NoValue)
		for i := range list {
			if t.wants(i) {
				list[i] = t.back(f(t, i, dy[0]), i)
			}
		}
		return list
	}
}

// extremum gives the gradient of each element to the first input that has the largest, or the smallest.
func extremum(t *tape, dy []graph.ValueID) []graph.ValueID {
	list, left, zero := t.only(0, graph.NoValue), dy[0], t.scalar(0)
	for i := range list {
		it := t.op("Equal", t.x(i), t.y())
		if t.wants(i) {
			list[i] = t.back(t.where(it, left, zero), i)
		}
		left = t.where(it, zero, left)
	}
	return list
}
