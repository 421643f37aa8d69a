package lower

import (
	"fmt"

	"qwb/kernels/qmath"
)

// Sum is Add or Sub: the sum of two tensors of integers, element by element with broadcasting.
type Sum struct {
	Sum qmath.Sum
}

// Name implements Op.
func (o *Sum) Name() string {
	if o.Sum.Subtract {
		return "Sub"
	}
	return "Add"
}

func (o *Sum) describe() string {
	y := o.Sum.Y
	return fmt.Sprintf("in %d..%d", y.QMin, y.QMax)
}

var sumFamily = family{name: "sum", emit: emitSum, ops: []string{"Add", "Sub"}}

func emitSum(c *compiler, u *unit) error {
	encs, in, err := c.operands(u, 0, 2)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	s, err := c.profile.PrepareSum(encs[0].Grid(), encs[1].Grid(), y.Grid(), c.g.Node(u.head()).Op == "Sub")
	if err != nil {
		return c.fail(u.head(), "%w", err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, &Sum{Sum: s})
	return nil
}
