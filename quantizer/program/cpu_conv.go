package program

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/kernels"
)

// cpuConv is a convolution.
type cpuConv struct {
	*cpuLinear
	packed *kernels.ConvU8S8
	window *kernels.ConvU8S8 // of weights 1: sums of windows, where the weights have a zero point
	in     []int             // the shape for which the following hold
	out    []int
	shape  kernels.ConvShape
	raw    kernels.StoreS32
}

func newCPUConv(l *cpuLinear) (cpuKernel, error) {
	if len(l.op.Weights.Codes.Shape) > 5 || l.wzero != 0 && l.node.AttrInt("group", 1) != 1 {
		return nil, nil
	}
	return &cpuConv{cpuLinear: l}, nil
}

// prepare finds the geometry for an input.
func (c *cpuConv) prepare(in []int) error {
	w := c.op.Weights.Codes.Shape
	geo, err := graph.ConvGeometry(c.node, graph.Static(in...), graph.Static(w...))
	if err != nil {
		return err
	}
	if c.shape, err = convShape(geo, in[0], in[1], w[0]); err != nil {
		return err
	}
	if c.shape.Check() != nil || c.shape.InLen() == 0 || c.shape.OutLen() == 0 {
		return errSlow
	}
	c.out = spatialShape(in[0], w[0], geo)
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

func (c *cpuConv) run(ctx context.Context, s *cpuStep, m *memory) error {
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
	c.packed.Run(c.e.par, x.codes, c.shape, uint8(c.zero), &c.e.scratch, terms, c.cpuLinear.out)
	return c.finish(ctx, s, m, true)
}

// convShape turns a geometry into the kernels' shape of a window from c to m channels. More than three spatial axes, and an empty
// depth, are for the reference.
func convShape(geo *graph.Geometry, n, c, m int) (kernels.ConvShape, error) {
	w, err := newWindow(geo)
	if err != nil {
		return kernels.ConvShape{}, err
	}
	if w.in[0] == 0 || w.out[0] == 0 { // the kernels read a depth of 0 as two dimensions
		return kernels.ConvShape{}, errSlow
	}
	return kernels.ConvShape{N: n, C: c, M: m, Group: geo.Group,
		D: w.in[0], KD: w.kernel[0], StrideD: w.stride[0], DilD: w.dilation[0], PadFront: w.begin[0], PadBack: w.end[0], OutD: w.out[0],
		H: w.in[1], KH: w.kernel[1], StrideH: w.stride[1], DilH: w.dilation[1], PadTop: w.begin[1], PadBottom: w.end[1], OutH: w.out[1],
		W: w.in[2], KW: w.kernel[2], StrideW: w.stride[2], DilW: w.dilation[2], PadLeft: w.begin[2], PadRight: w.end[2], OutW: w.out[2],
	}, nil
}
