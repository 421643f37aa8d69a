package cpu

import (
	"context"
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// concat joins tensors; those on other grids pass through a table.
type concat struct {
	par    kernels.Parallel
	axis   int
	dtype  tensor.DType
	tables []*byteTable // nil: as it is
	shape  []int

	in    []*value
	dst   []uint8
	width []int // bytes of a line of each input
	outer int
	piece func(i int)
}

func newConcat(e *engine, s *lower.Step, op *lower.Concat) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	out := &e.program.Tensors[s.Outputs[0]]
	c := &concat{par: e.par, axis: op.Axis, dtype: out.DType, tables: make([]*byteTable, len(s.Inputs)), in: make([]*value, len(s.Inputs)),
		width: make([]int, len(s.Inputs))}
	for i, id := range s.Inputs {
		in := &e.program.Tensors[id]
		if r := op.Rescale[i]; r != nil || op.Lo > in.Encoding.QMin || op.Hi < in.Encoding.QMax || in.DType != out.DType {
			c.tables[i] = newByteTable(in.DType, out.DType, func(q int32) int32 {
				if r != nil {
					q = r.At(q)
				}
				return min(max(q, op.Lo), op.Hi)
			})
		}
	}
	c.piece = c.runPiece
	return c
}

func (c *concat) run(_ context.Context, s *step, m *memory) error {
	first := s.in[0]
	if c.axis >= len(first.shape) {
		return errSlow
	}
	c.shape = append(c.shape[:0], first.shape...)
	last := false
	for i, v := range s.in {
		last = last || v.last
		if i == 0 {
			continue
		}
		if len(v.shape) != len(first.shape) {
			return fmt.Errorf("rank %d beside %d", len(v.shape), len(first.shape))
		}
		for a, n := range v.shape {
			if a != c.axis && n != first.shape[a] {
				return fmt.Errorf("shape %v beside %v along axis %d", v.shape, first.shape, c.axis)
			}
		}
		c.shape[c.axis] += v.shape[c.axis]
	}
	last = last && len(c.shape) > 2
	axis := c.axis // in memory
	switch {
	case last && axis == 1:
		axis = len(c.shape) - 1
	case last && axis > 1:
		axis--
	}
	for i, v := range s.in {
		c.in[i] = s.laid(m, v, last)
	}
	out := m.codes(c.dtype, c.shape, last)
	c.dst, c.outer = out.codes, 1
	for a := range axis {
		at := a
		if last && a > 0 {
			at = a + 1
		}
		c.outer *= c.shape[at]
	}
	for i, v := range c.in {
		c.width[i] = len(v.codes) / max(c.outer, 1)
	}
	if len(c.dst) > 0 {
		share(c.par, c.outer, max(1, byteGrain*c.outer/len(c.dst)), c.piece)
	}
	s.out[0] = out
	return nil
}

func (c *concat) runPiece(i int) {
	line := len(c.dst) / c.outer
	lo, hi := partOf(c.outer, max(1, byteGrain*c.outer/len(c.dst)), i)
	at := 0
	for k, v := range c.in {
		n := c.width[k]
		for o := lo; o < hi; o++ {
			dst, src := c.dst[o*line+at:][:n], v.codes[o*n:][:n]
			if t := c.tables[k]; t != nil {
				t.look(dst, src)
			} else {
				copy(dst, src)
			}
		}
		at += n
	}
}
