package lower

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// Softmax is the softmax of integers along Axis.
type Softmax struct {
	Axis int // counted from the front
	X, Y qmath.Grid
	// Softmax is the arithmetic for rows as long as Axis, nil where that is not known before the input is there: see For.
	Softmax *qmath.Softmax
}

// For returns the arithmetic of profile, which the program was compiled for, for rows of n codes.
func (o *Softmax) For(profile qmath.Profile, n int) (*qmath.Softmax, error) {
	if o.Softmax != nil && o.Softmax.N == n {
		return o.Softmax, nil
	}
	s, err := profile.PrepareSoftmax(o.X, o.Y, n)
	return &s, err
}

// Name implements Op.
func (*Softmax) Name() string { return "Softmax" }

func (o *Softmax) describe() string {
	return fmt.Sprintf("axis=%d in %d..%d", o.Axis, o.Y.QMin, o.Y.QMax)
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
	axis, old := graph.SoftmaxAxis(n, c.g.Opset(""))
	axis, ok := graph.Axis(axis, len(shape))
	if !ok {
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
	op := &Softmax{Axis: axis, X: encs[0].Grid(), Y: y.Grid()}
	if shape[axis].Known() {
		if op.Softmax, err = op.For(c.profile, int(shape[axis].N)); err != nil {
			return c.fail(n.ID, "%w", err)
		}
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, op)
	return nil
}
