package grad

import (
	"qwb/graph"
)

// norms are Softmax and what divides by a deviation.
var norms = map[string]rule{
	"Softmax": unary(func(t *tape, _, y, dy graph.ValueID) graph.ValueID {
		return t.mul(y, t.op("Sub", dy, t.total(t.mul(dy, y), t.softmaxAxes()...)))
	}),
	"LogSoftmax": unary(func(t *tape, _, y, dy graph.ValueID) graph.ValueID {
		return t.op("Sub", dy, t.mul(t.op("Exp", y), t.total(dy, t.softmaxAxes()...)))
	}),
	"LayerNormalization": func(t *tape, dy []graph.ValueID) []graph.ValueID {
		return t.normalized(dy[0], t.trailing(), true, t.shape(t.x(1)))
	},
	"RMSNormalization": func(t *tape, dy []graph.ValueID) []graph.ValueID {
		return t.normalized(dy[0], t.trailing(), false, t.shape(t.x(1)))
	},
	"InstanceNormalization": func(t *tape, dy []graph.ValueID) []graph.ValueID {
		x := t.shape(t.x(0))
		channel := []int{x[1]}
		var axes []int
		for d := 2; d < len(x); d++ {
			axes, channel = append(axes, d), append(channel, 1)
		}
		return t.normalized(dy[0], axes, true, channel)
	},
	"BatchNormalization": batchNorm,
}

// softmaxAxes are the axes over which the probabilities of a Softmax sum to 1: one from opset 13 on, before that all from one on.
func (t *tape) softmaxAxes() []int {
	rank := len(t.shape(t.y()))
	if t.G.Opset("") >= 13 {
		a, _ := graph.Axis(int(t.n.AttrInt("axis", -1)), rank)
		return []int{a}
	}
	a, _ := graph.Axis(int(t.n.AttrInt("axis", 1)), rank)
	return upTo(a, rank)
}

// trailing are the axes over which a LayerNormalization takes its moments.
func (t *tape) trailing() []int {
	rank := len(t.shape(t.x(0)))
	a, _ := graph.Axis(int(t.n.AttrInt("axis", -1)), rank)
	return upTo(a, rank)
}

func upTo(from, to int) []int {
	var list []int
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

// normalized differentiates (x - mean) / sqrt(mean of squares + epsilon) * scale + bias; the mean is 0 unless it is centered. Scale and
// bias are read as tensors of shape scaled.
func (t *tape) normalized(dy graph.ValueID, axes []int, centered bool, scaled []int) []graph.ValueID {
	x, shape := t.x(0), t.shape(t.x(0))
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	mean := func(v graph.ValueID) graph.ValueID { return t.scale(t.total(v, axes...), 1/float64(n)) }
	if centered {
		x = t.op("Sub", x, mean(x))
	}
	r := t.op("Reciprocal", t.op("Sqrt", t.op("Add", mean(t.mul(x, x)), t.scalar(t.n.Epsilon()))))
	unit := t.mul(x, r)
	list := t.only(0, graph.NoValue)
	if t.wants(0) {
		d := t.mul(dy, t.reshape(t.x(1), scaled))
		inner := t.op("Sub", d, t.mul(unit, mean(t.mul(d, unit))))
		if centered {
			inner = t.op("Sub", inner, mean(d))
		}
		list[0] = t.mul(inner, r)
	}
	if t.wants(1) {
		list[1] = t.reshape(t.like(t.mul(dy, unit), shape, scaled), t.shape(t.x(1)))
	}
	if t.wants(2) {
		list[2] = t.reshape(t.like(dy, shape, scaled), t.shape(t.x(2)))
	}
	return list
}

// batchNorm is that of inference: mean and variance are constants.
func batchNorm(t *tape, dy []graph.ValueID) []graph.ValueID {
	x := t.shape(t.x(0))
	channel := []int{x[1]}
	for range x[2:] {
		channel = append(channel, 1)
	}
	r := t.op("Reciprocal", t.op("Sqrt", t.op("Add", t.reshape(t.x(4), channel), t.scalar(t.n.Epsilon()))))
	list := t.only(0, graph.NoValue)
	if t.wants(0) {
		list[0] = t.mul(dy[0], t.mul(r, t.reshape(t.x(1), channel)))
	}
	if t.wants(1) {
		unit := t.mul(t.op("Sub", t.x(0), t.reshape(t.x(3), channel)), r)
		list[1] = t.reshape(t.like(t.mul(dy[0], unit), x, channel), x[1:2])
	}
	if t.wants(2) {
		list[2] = t.reshape(t.like(dy[0], x, channel), x[1:2])
	}
	return list
}
