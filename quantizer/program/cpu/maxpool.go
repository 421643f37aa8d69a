package cpu

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// maxPool is a max pool over bytes, whose order is that of the codes.
type maxPool struct {
	e      *engine
	node   *graph.Node
	global bool
	lowest uint8
	in     []int
	out    []int
	s      kernels.ConvShape

	src, dst []uint8
	columns  []uint8 // a line of the input for every piece
	piece    func(i int)
}

func newMaxPool(e *engine, s *lower.Step, op *lower.MaxPool) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	c := &maxPool{e: e, node: e.program.Graph.Node(s.Node), global: op.Global}
	c.lowest = uint8(op.Lowest + steps.Raised(e.program.Tensors[s.Inputs[0]].DType))
	c.piece = c.runPiece
	return c
}

func (c *maxPool) prepare(x *value) (err error) {
	if len(x.shape) < 3 || len(x.codes) == 0 {
		return errSlow
	}
	n, ch, size := x.planes()
	if c.global {
		c.s = kernels.ConvShape{N: n, C: ch, H: 1, W: size, KH: 1, KW: size, OutH: 1, OutW: 1}.Full()
		c.out = append(slices.Clone(x.shape[:2]), slices.Repeat([]int{1}, len(x.shape)-2)...)
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
	if c.s.Check() != nil || c.s.OutLen() == 0 {
		return errSlow
	}
	c.columns = make([]uint8, partsOf(c.s.N*c.s.OutD*c.s.OutH, c.grain())*c.s.W*c.s.C)
	c.in = slices.Clone(x.shape)
	return nil
}

func (c *maxPool) run(_ context.Context, s *step, m *memory) error {
	x := s.in[0]
	if !slices.Equal(c.in, x.shape) {
		c.in = nil
		if err := c.prepare(x); err != nil {
			return err
		}
	}
	x = s.channelsLast(m, x)
	out := m.codes(x.dtype, c.out, true)
	c.src, c.dst = x.codes, out.codes
	share(c.e.par, c.s.N*c.s.OutD*c.s.OutH, c.grain(), c.piece)
	s.out[0] = out
	return nil
}

// grain is how many lines of the output are worth a piece.
func (c *maxPool) grain() int {
	return max(1, byteGrain/(c.s.OutW*c.s.C*c.s.KD*c.s.KH))
}

func (c *maxPool) runPiece(i int) {
	s := &c.s
	width := s.W * s.C
	column := c.columns[i*width:][:width]
	lo, hi := partOf(s.N*s.OutD*s.OutH, c.grain(), i)
	for l := lo; l < hi; l++ {
		y, z := l%s.OutH, l/s.OutH
		n := z / s.OutD
		c.line(c.dst[l*s.OutW*s.C:][:s.OutW*s.C], column, n, z%s.OutD, y)
	}
}

// line computes one line of the output: first the largest bytes of the input lines, whole, into column, then those of windows.
func (c *maxPool) line(dst, column []uint8, n, z, y int) {
	s := &c.s
	any := false
	for kd := range s.KD {
		d := z*s.StrideD - s.PadFront + kd*s.DilD
		if d < 0 || d >= s.D {
			continue
		}
		for kh := range s.KH {
			h := y*s.StrideH - s.PadTop + kh*s.DilH
			if h < 0 || h >= s.H {
				continue
			}
			row := c.src[((n*s.D+d)*s.H+h)*s.W*s.C:][:s.W*s.C]
			if any {
				c.e.table.MaxCodes(column, len(row), row, len(row), 1, len(row))
			} else {
				copy(column, row)
			}
			any = true
		}
	}
	fillBytes(dst, c.lowest)
	if !any {
		return
	}
	for kw := range s.KW {
		first := kw*s.DilW - s.PadLeft
		if x0, x1 := inside(first, s.StrideW, s.W, s.OutW); x0 < x1 {
			c.e.table.MaxCodes(dst[x0*s.C:], s.C, column[(x0*s.StrideW+first)*s.C:], s.StrideW*s.C, x1-x0, s.C)
		}
	}
}

// fillBytes sets every byte of dst to q.
func fillBytes(dst []uint8, q uint8) {
	if len(dst) == 0 {
		return
	}
	dst[0] = q
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// inside returns the outputs x of n for which first + x*stride lies in [0, size).
func inside(first, stride, size, n int) (lo, hi int) {
	if first < 0 {
		lo = (-first + stride - 1) / stride
	}
	if first < size {
		hi = min(n, (size-1-first)/stride+1)
	}
	return lo, hi
}
