package lower

import "qwb/kernels/qmath"

// Select is Where: each element is taken from input 1 or input 2 of the step, brought to the encoding of the output, as input 0
// says.
type Select struct {
	Rescale [2]*qmath.Rescale // nil for an input that has the encoding of the output already
	Lo, Hi  int32
}

// Name implements Op.
func (*Select) Name() string     { return "Where" }
func (*Select) describe() string { return "" }

var selectFamily = family{name: "select", emit: emitSelect, ops: []string{"Where"}}

func emitSelect(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	encs, in, err := c.operands(u, 1, 3)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	cond, err := c.read(n.Inputs[0], realForm)
	if err != nil {
		return c.fail(n.ID, "%w", err)
	}
	op := &Select{Lo: y.QMin, Hi: y.QMax}
	for i, e := range encs {
		if e == *c.base[v] {
			continue
		}
		q, err := c.requantize(e, *c.base[v], y.QMin, y.QMax)
		if err != nil {
			return c.fail(n.ID, "input %d: %w", i+1, err)
		}
		op.Rescale[i] = &q.Rescale
	}
	c.unitStep(u, append([]TensorID{cond}, in...), []TensorID{c.define(v, integer(*c.base[v]))}, op)
	return nil
}
