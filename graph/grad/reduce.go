package grad

import (
	"slices"

	"qwb/graph"
)

// reductions make one number of many, and running sums.
var reductions = map[string]rule{
	"ReduceSum": reduced(func(r *reduction) graph.ValueID { return r.dy }),
	"ReduceMean": reduced(func(r *reduction) graph.ValueID {
		n := 1
		for _, a := range r.axes {
			n *= r.shape[a]
		}
		return r.scale(r.dy, 1/float64(n))
	}),
	"ReduceSumSquare": reduced(func(r *reduction) graph.ValueID { return r.mul(r.scale(r.dy, 2), r.x) }),
	"ReduceL1":        reduced(func(r *reduction) graph.ValueID { return r.mul(r.dy, r.op("Sign", r.x)) }),
	"ReduceL2": reduced(func(r *reduction) graph.ValueID { // none where all are 0
		zero := r.scalar(0)
		return r.mul(r.x, r.where(r.op("Equal", r.y, zero), zero, r.op("Div", r.dy, r.y)))
	}),
	"ReduceLogSum":    reduced(func(r *reduction) graph.ValueID { return r.op("Div", r.dy, r.op("Exp", r.y)) }),
	"ReduceLogSumExp": reduced(func(r *reduction) graph.ValueID { return r.mul(r.dy, r.op("Exp", r.op("Sub", r.x, r.y))) }),
	"ReduceProd": reduced(func(r *reduction) graph.ValueID { // of the others: a zero leaves one to itself, two leave none to anybody
		zero, one := r.scalar(0), r.scalar(1)
		is := r.op("Equal", r.x, zero)
		zeros := r.total(r.where(is, one, zero), r.axes...)
		filled := r.where(is, one, r.x)
		rest := r.op("Div", r.keeping(filled), filled)
		return r.mul(r.dy, r.where(r.op("Equal", r.op("Sub", zeros, r.where(is, one, zero)), zero), rest, zero))
	}),
	"ReduceMax": reduced(shared),
	"ReduceMin": reduced(shared),
	"CumSum": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID { // from the other end
		attrs := []graph.Attr{graph.Int("exclusive", t.n.AttrInt("exclusive", 0)), graph.Int("reverse", 1-t.n.AttrInt("reverse", 0))}
		return t.with("CumSum", attrs, dy, t.x(1))
	}),
}

// reduction is one under way: y and dy have its axes with one element.
type reduction struct {
	*tape
	x, y, dy    graph.ValueID
	shape, axes []int // of x
}

// reduced is the rule of a reduction whose gradient, of the shape of x or repeated to it, is f.
func reduced(f func(r *reduction) graph.ValueID) rule {
	return unary(func(t *tape, x, y, dy graph.ValueID) graph.ValueID {
		r := &reduction{tape: t, x: x, shape: t.shape(x)}
		kept := slices.Clone(r.shape)
		var err error
		if r.axes, err = graph.ReduceAxes(&t.n, len(kept), graph.Int64s(t.list("axes", 1))); err != nil {
			t.fail(err)
		}
		for _, a := range r.axes {
			kept[a] = 1
		}
		r.y, r.dy = t.reshape(y, kept), t.reshape(dy, kept)
		return t.op("Expand", f(r), t.integers(r.shape...))
	})
}

// keeping is the reduction of something in place of x, its axes kept.
func (r *reduction) keeping(x graph.ValueID) graph.ValueID {
	attrs := []graph.Attr{graph.Int("keepdims", 1)}
	in := append([]graph.ValueID{x}, r.n.Inputs[1:]...)
	for _, a := range r.n.Attrs {
		if a.Name != "keepdims" {
			attrs = append(attrs, a)
		}
	}
	return r.with(r.n.Op, attrs, in...)
}

// shared gives all elements that are the largest, or the smallest, an equal part.
func shared(r *reduction) graph.ValueID {
	it := r.where(r.op("Equal", r.x, r.y), r.scalar(1), r.scalar(0))
	return r.mul(it, r.op("Div", r.dy, r.total(it, r.axes...)))
}
