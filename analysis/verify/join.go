package verify

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// concat joins tensors along an axis, each brought to the output's grid.
type concat struct {
	*layer
	got     *lower.Concat
	axis    int
	y       qmath.Grid // limited by the activation
	x       []qmath.Grid
	rescale []*qmath.Rescale
}

func (l *layer) deriveConcat(op *lower.Concat) (operation, error) {
	if err := l.wants("Concat"); err != nil {
		return nil, err
	}
	if len(l.step.Outputs) != 1 || l.out(0) == nil {
		return nil, fmt.Errorf("the result is not integers")
	}
	c := &concat{layer: l, got: op}
	c.axis, _ = graph.Axis(l.node.Axis(), len(l.g.Value(l.node.Outputs[0]).Shape))
	var err error
	if c.y, err = l.limited(*l.out(0)); err != nil {
		return nil, err
	}
	for i, v := range l.node.Inputs {
		if v == graph.NoValue {
			continue
		}
		x := l.out(0) // an input that is real comes on the grid of the output
		if g := l.seen(l.node.ID, i); g != nil {
			x = g
		}
		c.x = append(c.x, *x)
		r, err := l.between(*x, *l.out(0), c.y)
		if err != nil {
			return nil, err
		}
		c.rescale = append(c.rescale, r)
	}
	if len(c.x) != len(l.step.Inputs) {
		return nil, fmt.Errorf("%d inputs where the graph gives %d", len(l.step.Inputs), len(c.x))
	}
	return c, nil
}

// between prepares the way from grid x to y, limited; nil where they are the same.
func (l *layer) between(x, y, limited qmath.Grid) (*qmath.Rescale, error) {
	if x == y {
		return nil, nil
	}
	r, err := l.profile.PrepareRescale(x, limited)
	return &r, err
}

func (c *concat) compare(f *faults) {
	number(f, "axis", 0, c.axis, c.got.Axis)
	number(f, "lower clamp", 0, c.y.QMin, c.got.Lo)
	number(f, "upper clamp", 0, c.y.QMax, c.got.Hi)
	number(f, "number of inputs", 0, len(c.rescale), len(c.got.Rescale))
	for i := range min(len(c.rescale), len(c.got.Rescale)) {
		f.rescale(i, c.rescale[i], c.got.Rescale[i])
	}
}

func (c *concat) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	outer, total := 1, 0
	for _, n := range in[0].Shape[:c.axis] {
		outer *= n
	}
	for _, t := range in {
		total += t.Len()
	}
	values := make([]float64, total)
	bound, at := 0.0, 0
	for i, t := range in {
		part := dequantized(t, c.x[i])
		n := len(part) / max(outer, 1)
		for o := range outer {
			copy(values[o*(total/outer)+at:], part[o*n:(o+1)*n])
		}
		at += n
		bound = max(bound, deviation(c.rescale[i]))
	}
	return []*exact{c.steps(values, c.y, bound)}, nil
}

func deviation(r *qmath.Rescale) float64 {
	if r == nil {
		return 0
	}
	return r.Deviation()
}

// choose is Where.
type choose struct {
	*layer
	got     *lower.Select
	x       [2]qmath.Grid
	y       qmath.Grid
	rescale [2]*qmath.Rescale
}

func (l *layer) deriveSelect(op *lower.Select) (operation, error) {
	if err := l.wants("Where"); err != nil {
		return nil, err
	}
	if err := l.sole(3); err != nil {
		return nil, err
	}
	if l.out(0) == nil {
		return nil, fmt.Errorf("the result is not integers")
	}
	c := &choose{layer: l, got: op}
	var err error
	if c.y, err = l.limited(*l.out(0)); err != nil {
		return nil, err
	}
	for i := range c.x {
		x := l.seen(l.node.ID, 1+i)
		if x == nil {
			return nil, fmt.Errorf("input %d is not quantized", 1+i)
		}
		c.x[i] = *x
		if c.rescale[i], err = l.between(*x, *l.out(0), c.y); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *choose) compare(f *faults) {
	number(f, "lower clamp", 0, c.y.QMin, c.got.Lo)
	number(f, "upper clamp", 0, c.y.QMax, c.got.Hi)
	for i := range c.rescale {
		f.rescale(i, c.rescale[i], c.got.Rescale[i])
	}
}

func (c *choose) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	cond, ok := in[0].Data.([]bool)
	if !ok {
		return nil, fmt.Errorf("condition of type %s", in[0].Type())
	}
	shape := broadcast(in[0].Shape, in[1].Shape, in[2].Shape)
	which := source(shape, in[0].Shape)
	from := [2][]int{source(shape, in[1].Shape), source(shape, in[2].Shape)}
	x := [2][]float64{dequantized(in[1], c.x[0]), dequantized(in[2], c.x[1])}
	values := make([]float64, len(which))
	for i := range values {
		k := 1
		if cond[which[i]] {
			k = 0
		}
		values[i] = x[k][from[k][i]]
	}
	return []*exact{c.steps(values, c.y, max(deviation(c.rescale[0]), deviation(c.rescale[1])))}, nil
}
