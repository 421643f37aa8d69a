package lower

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// PRelu is x from 0 on and slope*x below, of two tensors of integers; the slope is broadcast to x.
type PRelu struct {
	// Above holds the result for each code of x from the zero point on, by its raw byte or word as in Table.
	Above *tensor.Tensor
	Below qmath.Product // of codes of x below the zero point and of the slope
}

// Name implements Op.
func (*PRelu) Name() string { return "PRelu" }

func (o *PRelu) describe() string { return fmt.Sprintf("in %d..%d", o.Below.Y.QMin, o.Below.Y.QMax) }

// Compute implements Computed.
func (o *PRelu) Compute(p *Program, s *Step, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if !tensor.Stretches(in[1].Shape, in[0].Shape) {
		return nil, fmt.Errorf("a slope of %s for %s", in[1].Type(), in[0].Type())
	}
	above, codes, slopes := o.Above.Integers(), in[0].Integers(), in[1].Integers()
	for i, at := range tensor.BroadcastIndex(in[0].Shape, in[1].Shape) {
		if q := codes[i]; q >= o.Below.A.ZeroPoint {
			codes[i] = above[int(q)&(len(above)-1)]
		} else {
			codes[i] = o.Below.At(q, slopes[at])
		}
	}
	out, err := tqc.Narrow(p.Tensors[s.Outputs[0]].DType, in[0].Shape, codes)
	return []*tensor.Tensor{out}, err
}

var preluFamily = family{name: "prelu", emit: emitPRelu, ops: []string{"PRelu"}}

func emitPRelu(c *compiler, u *unit) error {
	encs, in, err := c.operands(u, 0, 2)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	if slope := c.shapeOf(c.g.Node(u.head()).Inputs[1]); c.g.Opset("") < 7 && tensor.Count(slope) > 1 {
		return c.fail(u.head(), "one slope per channel, as opset %d has it, has no integer form", c.g.Opset(""))
	}
	op := &PRelu{}
	if op.Below, err = c.profile.PrepareProduct(encs[0].Grid(), encs[1].Grid(), y.Grid()); err == nil {
		op.Above, err = c.preluAbove(encs[0], y)
	}
	if err != nil {
		return c.fail(u.head(), "%w", err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, op)
	return nil
}

// preluAbove is a change of grid; TFLite's is that of its leaky ReLU, whose factor s_x/s_y is a float32.
func (c *compiler) preluAbove(x, y Encoding) (*tensor.Tensor, error) {
	if x.DType().Bits() == 8 && y.DType().Bits() == 8 {
		t, err := c.profile.LeakyRelu(x.Grid(), y.Grid(), 1)
		return tableTensor(t, y), err
	}
	r, err := c.profile.PrepareRescale(x.Grid(), y.Grid())
	out := tensor.New(y.DType(), 1<<x.DType().Bits())
	for raw := range out.Len() {
		setCode(out, raw, r.At(x.code(raw)))
	}
	return out, err
}
