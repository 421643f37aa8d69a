package lower

import "qwb/graph"

// family is a group of operators that are lowered in the same way; each is in a row of table. docs/adding-an-integer-operator.md lists the
// places that a new one touches.
type family struct {
	name string
	ops  []string // of ai.onnx
	// passes: the output may have the encoding of input 0, whatever that is, so that a real tensor can be asked for in the form in
	// which the output is read. Others read integers of given encodings.
	passes bool
	// residual: a tensor may be added to the result before it is rounded.
	residual bool
	emit     func(c *compiler, u *unit) error
}

// result returns the encoding of the one result of a unit, limited to what the activation behind it leaves over. The value must
// have integers of its own.
func (c *compiler) result(u *unit) (v graph.ValueID, e Encoding, err error) {
	v = c.g.Node(u.last()).Outputs[0]
	if c.base[v] == nil {
		return v, e, c.fail(u.last(), "its result is not quantized")
	}
	lo, hi, ok, err := c.limits(u.acts)
	if err != nil {
		return v, e, err
	}
	if !ok {
		return v, e, c.fail(u.acts[0], "%s cannot be computed by limits behind %s", c.g.Node(u.acts[0]).Op, c.g.Node(u.head()).Op)
	}
	e = *c.base[v]
	e.QMin, e.QMax = codeLimits(e, lo, hi)
	return v, e, nil
}

// operands returns encodings and tensors of the inputs of a unit's first node; every one must be quantized.
func (c *compiler) operands(u *unit, from, to int) (encs []Encoding, in []TensorID, err error) {
	id := u.head()
	for i := from; i < to; i++ {
		e, err := c.operand(id, i)
		if err != nil {
			return nil, nil, err
		}
		t, err := c.read(c.g.Node(id).Inputs[i], integer(e))
		if err != nil {
			return nil, nil, c.fail(id, "input %d: %w", i, err)
		}
		encs, in = append(encs, e), append(in, t)
	}
	return encs, in, nil
}
