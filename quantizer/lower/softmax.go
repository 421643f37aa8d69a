package lower

import (
	"fmt"

	"qwb/kernels/qmath"
)

// Softmax is the softmax of integers along Axis, whose length is Softmax.N.
type Softmax struct {
	Axis    int // counted from the front
	Softmax qmath.Softmax
}

// Name implements Op.
func (*Softmax) Name() string { return "Softmax" }

func (o *Softmax) describe() string {
	return fmt.Sprintf("axis=%d form=%d in %d..%d", o.Axis, o.Softmax.Form, o.Softmax.Y.QMin, o.Softmax.Y.QMax)
}

var softmaxFamily = family{name: "softmax", emit: emitSoftmax, ops: []string{"Softmax"}}

func emitSoftmax(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	encs, in, err := c.operands(u, 0, 1)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	shape := c.g.Value(n.Inputs[0]).Shape
	old := c.g.Opset("") < 13
	axis := int(n.AttrInt("axis", -1))
	if old {
		axis = int(n.AttrInt("axis", 1))
	}
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) {
		return c.fail(n.ID, "axis %d of %s", axis, shape)
	}
	if old { // a row is everything from axis on; only one of those axes may be longer than 1
		first := axis
		for a := first; a < len(shape); a++ {
			if shape[a].N == 1 {
				continue
			}
			if shape[axis].N != 1 && a != axis {
				return c.fail(n.ID, "it works along several axes of %s at once", shape)
			}
			axis = a
		}
	}
	if !shape[axis].Known() {
		return c.fail(n.ID, "the length of axis %d of %s is not known", axis, shape)
	}
	s, err := c.profile.PrepareSoftmax(encs[0].Grid(), y.Grid(), int(shape[axis].N))
	if err != nil {
		return c.fail(n.ID, "%w", err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, &Softmax{Axis: axis, Softmax: s})
	return nil
}
