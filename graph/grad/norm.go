package grad

import (
	"fmt"
	"slices"

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
		return t.normalized(dy[0], t.shape(t.x(0)), t.trailing(), true, t.shape(t.x(1)))
	},
	"RMSNormalization":             rmsNorm,
	"SimplifiedLayerNormalization": rmsNorm,
	"InstanceNormalization": func(t *tape, dy []graph.ValueID) []graph.ValueID {
		x := t.shape(t.x(0))
		channel := []int{x[1]}
		var axes []int
		for d := 2; d < len(x); d++ {
			axes, channel = append(axes, d), append(channel, 1)
		}
		return t.normalized(dy[0], x, axes, true, channel)
	},
	"GroupNormalization": groupNorm,
	"MeanVarianceNormalization": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		axes := []int{0, 2, 3}
		if t.n.Attr("axes") != nil {
			axes = nil
			for _, a := range t.n.AttrInts("axes") {
				a, _ := graph.Axis(int(a), len(t.shape(x)))
				axes = append(axes, a)
			}
		}
		unit, r := t.unit(x, t.shape(x), axes, true, 0)
		return t.normal(dy, unit, r, t.shape(x), axes, true)
	}),
	"LpNormalization":    unary(lpNorm),
	"LRN":                unary(lrn),
	"BatchNormalization": batchNorm,
}

func rmsNorm(t *tape, dy []graph.ValueID) []graph.ValueID {
	return t.normalized(dy[0], t.shape(t.x(0)), t.trailing(), false, t.shape(t.x(1)))
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

// mean is the mean over axes of a tensor shaped like x, which stay with one element.
func (t *tape) mean(v graph.ValueID, shape, axes []int) graph.ValueID {
	n := 1
	for _, a := range axes {
		n *= shape[a]
	}
	return t.scale(t.total(v, axes...), 1/float64(n))
}

// unit is (x - mean) r with r = 1 / sqrt(mean of squares + epsilon) over axes; the mean is 0 unless it is centered.
func (t *tape) unit(x graph.ValueID, shape, axes []int, centered bool, epsilon float64) (unit, r graph.ValueID) {
	if centered {
		x = t.op("Sub", x, t.mean(x, shape, axes))
	}
	r = t.op("Reciprocal", t.op("Sqrt", t.op("Add", t.mean(t.mul(x, x), shape, axes), t.scalar(epsilon))))
	return t.mul(x, r), r
}

// normal brings what arrives at unit back to x.
func (t *tape) normal(d, unit, r graph.ValueID, shape, axes []int, centered bool) graph.ValueID {
	inner := t.op("Sub", d, t.mul(unit, t.mean(t.mul(d, unit), shape, axes)))
	if centered {
		inner = t.op("Sub", inner, t.mean(d, shape, axes))
	}
	return t.mul(inner, r)
}

// normalized differentiates the unit of input 0 times a scale plus a bias, inputs 1 and 2, over axes of input 0 read as of some shape;
// scale and bias are read as of shape scaled.
func (t *tape) normalized(dy graph.ValueID, shape, axes []int, centered bool, scaled []int) []graph.ValueID {
	x := t.x(0)
	if own := t.shape(x); !slices.Equal(own, shape) {
		x, dy = t.reshape(x, shape), t.reshape(dy, shape)
	}
	unit, r := t.unit(x, shape, axes, centered, t.n.Epsilon())
	list := t.only(0, graph.NoValue)
	if t.wants(0) {
		d := t.normal(t.mul(dy, t.reshape(t.x(1), scaled)), unit, r, shape, axes, centered)
		if list[0] = d; x != t.x(0) {
			list[0] = t.reshape(d, t.shape(t.x(0)))
		}
	}
	if t.wants(1) {
		list[1] = t.reshape(t.like(t.mul(dy, unit), shape, scaled), t.shape(t.x(1)))
	}
	if t.wants(2) {
		list[2] = t.reshape(t.like(dy, shape, scaled), t.shape(t.x(2)))
	}
	return list
}

// groupNorm normalizes groups of channels; scale and bias are of groups before opset 21, of channels since.
func groupNorm(t *tape, dy []graph.ValueID) []graph.ValueID {
	x := t.shape(t.x(0))
	groups := int(t.n.AttrInt("num_groups", 0))
	if groups < 1 || x[1]%groups != 0 {
		t.fail(fmt.Errorf("%d channels in %d groups", x[1], groups))
		return nil
	}
	parted, scaled := append([]int{x[0], groups, x[1] / groups}, x[2:]...), []int{1, groups, x[1] / groups}
	if t.G.Opset("") < 21 {
		scaled[2] = 1
	}
	for range x[2:] {
		scaled = append(scaled, 1)
	}
	return t.normalized(dy[0], parted, upTo(2, len(parted)), true, scaled)
}

// lpNorm differentiates x over its norm; where that is 0 so is the gradient.
func lpNorm(t *tape, x, y, dy graph.ValueID) graph.ValueID {
	axis, _ := graph.Axis(t.n.Axis(), len(t.shape(x)))
	norm, slope := t.total(t.op("Abs", x), axis), t.op("Sign", x)
	if t.n.AttrInt("p", 2) == 2 {
		norm, slope = t.op("Sqrt", t.total(t.mul(x, x), axis)), y
	}
	d := t.op("Sub", dy, t.mul(slope, t.total(t.mul(dy, y), axis)))
	return t.where(t.op("Equal", norm, t.scalar(0)), t.scalar(0), t.op("Div", d, norm))
}

// lrn differentiates x s^-beta, s = bias + alpha/size times the sum of squares of the channels around.
func lrn(t *tape, x, y, dy graph.ValueID) graph.ValueID {
	shape, size := t.shape(x), int(t.n.AttrInt("size", 1))
	alpha, beta := float64(t.n.Alpha())/float64(size), float64(t.n.Beta())
	band := make([][]float64, shape[1])
	for c := range band {
		band[c] = make([]float64, shape[1])
		for k := max(0, c-(size-1)/2); k < min(shape[1], c+size/2+1); k++ {
			band[c][k] = 1
		}
	}
	back := make([][]float64, len(band)) // along multiplies by the rows
	for c := range back {
		for k := range band {
			back[c] = append(back[c], band[k][c])
		}
	}
	squares := t.along(t.mul(x, x), len(shape), 1, back)
	s := t.op("Add", t.scale(squares, alpha), t.scalar(float64(t.n.AttrFloat("bias", 1))))
	around := t.along(t.op("Div", t.mul(dy, y), s), len(shape), 1, band)
	return t.op("Sub", t.mul(dy, t.op("Pow", s, t.scalar(-beta))), t.scale(t.mul(x, around), 2*alpha*beta))
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
