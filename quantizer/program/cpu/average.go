package cpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// average is the mean of windows or of whole planes. The sums of codes are those of a depthwise convolution with weights of 1,
// the padding of which is the zero point and adds nothing.
type average struct {
	e       *engine
	p       *lower.Program
	op      *lower.Average
	node    *graph.Node
	to      lower.TensorID
	dtype   tensor.DType
	zero    int32
	padding bool // positions of the padding count

	in, out []int
	s       kernels.ConvShape
	ones    *kernels.ConvU8S8
	column  []int32
	counts  []int            // by output position of an image: how many positions count
	by      []*qmath.Average // by count
	tables  [][]uint8        // by count: the codes of sums from least on, nil where there are many
	sums    []int32
	raw     kernels.StoreS32
	// Where all windows have as many positions, and the arithmetic is that of a kernel:
	scaled *kernels.StoreScaled // from sums to codes
	coder  *coder               // from means to codes
	means  []float32
}

func newAverage(e *engine, s *lower.Step, op *lower.Average) kernel {
	in := &e.program.Tensors[s.Inputs[0]]
	zero := op.X.ZeroPoint + steps.Raised(in.DType)
	if !steps.EightBit(e.program, s) || zero < 0 || zero > 255 || op.Axes != nil && !allSpatial(op.Axes, len(in.Shape)) {
		return nil
	}
	node := e.program.Graph.Node(s.Node)
	return &average{e: e, p: e.program, op: op, node: node, to: s.Outputs[0], dtype: e.program.Tensors[s.Outputs[0]].DType, zero: zero,
		padding: node.Pool().CountPadding}
}

// prepare finds the geometry and the arithmetic for an input.
func (c *average) prepare(x *value) error {
	if len(x.shape) < 3 || len(x.codes) == 0 {
		return errSlow
	}
	n, ch, size := x.planes()
	if c.op.Axes != nil {
		c.s = kernels.ConvShape{N: n, C: ch, H: 1, W: size, KH: 1, KW: size, OutH: 1, OutW: 1}
		c.out = slices.Clone(x.shape[:2])
		if c.op.Keep {
			c.out = append(c.out, slices.Repeat([]int{1}, len(x.shape)-2)...)
		}
	} else {
		geo, err := graph.PoolGeometry(c.node, graph.Static(x.shape...))
		if err != nil {
			return err
		}
		if c.s, err = steps.ConvShape(geo, n, ch, ch); err != nil {
			return err
		}
		c.out = steps.SpatialShape(n, ch, geo)
	}
	c.s = c.s.Full()
	c.s.Group = ch
	if c.s.Check() != nil || c.s.OutLen() == 0 {
		return errSlow
	}
	if err := c.count(); err != nil {
		return err
	}
	taps := c.s.KD * c.s.KH * c.s.KW
	c.ones = c.e.table.PackConvU8S8(slices.Repeat([]int8{1}, ch*taps), c.s)
	c.column = slices.Repeat([]int32{-c.zero * int32(taps)}, ch)
	c.sums = make([]int32, c.s.OutLen())
	c.direct()
	c.in = slices.Clone(x.shape)
	return nil
}

// direct finds kernels that compute the same as the arithmetic of the only number of positions there is.
func (c *average) direct() {
	c.scaled, c.coder = nil, nil
	a := c.by[c.counts[0]]
	for _, n := range c.counts {
		if a == nil || n != c.counts[0] || c.tables[n] != nil {
			return
		}
	}
	low, high, zero := a.Y.QMin+steps.Raised(c.dtype), a.Y.QMax+steps.Raised(c.dtype), a.Y.ZeroPoint+steps.Raised(c.dtype)
	switch {
	case a.Form == qmath.AverageFloat:
		c.coder, c.means = newCoder(c.e, c.to, a.Quantizer, c.dtype), make([]float32, len(c.sums))
	case a.Form == qmath.AverageScaled && a.Scaling.Form == qmath.FloatAfter && a.Scaling.Rounding == qmath.HalfEven && a.M.Bias == 0 &&
		low >= 0 && low <= high && high > 0 && high <= 255 && zero >= 0 && zero <= 255:
		s := kernels.Scale{Factor: slices.Repeat([]float32{a.M.Scale}, c.s.C), Zero: uint8(zero), QMin: uint8(low), QMax: uint8(high)}
		if s.Check() == nil {
			c.scaled = &kernels.StoreScaled{Ldd: c.s.C, Scale: s}
		}
	}
}

// count finds how many positions of every window count and prepares the arithmetic for each number.
func (c *average) count() error {
	s := &c.s
	taps := s.KD * s.KH * s.KW
	c.counts, c.by, c.tables = c.counts[:0], make([]*qmath.Average, taps+1), make([][]uint8, taps+1)
	for z := range s.OutD {
		for y := range s.OutH {
			for x := range s.OutW {
				n := taps
				if c.op.Axes == nil {
					n = s.WindowCount(z, y, x, c.padding)
				}
				c.counts = append(c.counts, n)
				if n == 0 || c.by[n] != nil {
					continue
				}
				a, err := c.op.For(c.p.Profile, n)
				if err != nil {
					return err
				}
				if a.Float() || a.Form == qmath.AverageEach {
					return errSlow
				}
				c.by[n] = a
				if spread := 255*n + 1; spread < s.OutLen() {
					c.tables[n] = make([]uint8, spread)
					for i := range c.tables[n] {
						c.tables[n][i] = uint8(a.At(int32(i)-c.zero*int32(n)) + steps.Raised(c.dtype))
					}
				}
			}
		}
	}
	return nil
}

func (c *average) run(_ context.Context, s *step, m *memory) error {
	x := s.in[0]
	if !slices.Equal(c.in, x.shape) {
		c.in = nil
		if err := c.prepare(x); err != nil {
			return err
		}
	}
	x = s.channelsLast(m, x)
	out := m.codes(c.dtype, c.out, len(c.out) > 2)
	s.out[0] = out
	if c.scaled != nil {
		c.scaled.Dst = out.codes
		c.ones.Run(c.e.par, x.codes, c.s, uint8(c.zero), &c.e.scratch, kernels.Terms{Column: c.column}, c.scaled)
		return nil
	}
	c.raw.Dst, c.raw.Ldd = c.sums, c.s.C
	c.ones.Run(c.e.par, x.codes, c.s, uint8(c.zero), &c.e.scratch, kernels.Terms{Column: c.column}, &c.raw)
	if c.coder != nil {
		a := c.by[c.counts[0]]
		scale, n := a.X.Scale, float32(a.N)
		for i, v := range c.sums {
			c.means[i] = float32(float32(v)*scale) / n
		}
		c.coder.run(c.e.par, out.codes, c.means)
		return nil
	}
	positions := len(c.counts)
	for i := range len(c.sums) / c.s.C {
		n := c.counts[i%positions]
		sums, dst := c.sums[i*c.s.C:][:c.s.C], out.codes[i*c.s.C:][:c.s.C]
		switch a, table := c.by[n], c.tables[n]; {
		case n == 0:
			for j := range dst {
				dst[j] = uint8(c.op.Empty() + steps.Raised(c.dtype))
			}
		case table != nil:
			for j, v := range sums {
				dst[j] = table[v+c.zero*int32(n)]
			}
		default:
			for j, v := range sums {
				dst[j] = uint8(a.At(v) + steps.Raised(c.dtype))
			}
		}
	}
	return nil
}

// allSpatial reports whether a list of axes is all spatial ones of a tensor of that rank, in order.
func allSpatial(axes []int, rank int) bool {
	if rank < 3 || len(axes) != rank-2 {
		return false
	}
	for i, a := range axes {
		if a != i+2 {
			return false
		}
	}
	return true
}
