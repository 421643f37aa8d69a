package cpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/kernels"
	"qwb/quantizer/program/steps"
)

// conv is a convolution.
type conv struct {
	*linear
	packed *kernels.ConvU8S8
	window *kernels.ConvU8S8 // of weights 1: sums of windows, where the weights have a zero point
	in     []int             // the shape for which the following hold
	out    []int
	shape  kernels.ConvShape
	raw    kernels.StoreS32
}

func newConv(l *linear) (kernel, error) {
	if len(l.op.Weights.Codes.Shape) > 5 || l.wzero != 0 && l.node.Conv().Group != 1 {
		return nil, nil
	}
	return &conv{linear: l}, nil
}

// prepare finds the geometry for an input.
func (c *conv) prepare(in []int) error {
	w := c.op.Weights.Codes.Shape
	geo, err := graph.ConvGeometry(c.node, graph.Static(in...), graph.Static(w...))
	if err != nil {
		return err
	}
	if c.shape, err = steps.ConvShape(geo, in[0], in[1], w[0]); err != nil {
		return err
	}
	if c.shape.Check() != nil || c.shape.InLen() == 0 || c.shape.OutLen() == 0 {
		return errSlow
	}
	c.out = steps.SpatialShape(in[0], w[0], geo)
	if c.packed == nil {
		c.packed = c.table.PackConvU8S8(c.weights, c.shape)
		c.setColumns(c.packed.Sums(), w[0], c.op.Weights.Terms, c.wzero)
		if c.wzero != 0 {
			ones := make([]int8, len(c.weights)/w[0])
			for i := range ones {
				ones[i] = 1
			}
			one := c.shape
			one.M = 1
			c.window = c.e.table.PackConvU8S8(ones, one)
		}
		c.weights = nil
	}
	c.in = slices.Clone(in)
	return nil
}

func (c *conv) run(ctx context.Context, s *step, m *memory) error {
	x := s.in[0]
	if !slices.Equal(c.in, x.shape) {
		c.in = nil
		if err := c.prepare(x.shape); err != nil {
			return err
		}
	}
	x = s.channelsLast(m, x)
	if err := c.outputs(s, m, c.out, true, c.shape.M); err != nil {
		return err
	}
	terms := kernels.Terms{Column: c.column}
	if c.window != nil {
		one := c.shape
		one.M = 1
		c.raw.Dst, c.raw.Ldd = c.rowSums(c.shape.OutLen()/c.shape.M), 1
		c.window.Run(c.e.par, x.codes, one, uint8(c.zero), &c.e.scratch, kernels.Terms{}, &c.raw)
		terms.Row = c.setRows(c.wzero)
	}
	c.packed.Run(c.e.par, x.codes, c.shape, uint8(c.zero), &c.e.scratch, terms, c.linear.out)
	return c.finish(ctx, s, m, true)
}
