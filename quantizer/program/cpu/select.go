package cpu

import (
	"context"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// selection takes every byte from one of two operands, each by a table that brings it to the encoding of the output.
type selection struct {
	par    kernels.Parallel
	dtype  tensor.DType
	tables [2]*byteTable

	// For the shapes at hand: of condition and operands, and of the output.
	shapes [3][]int
	shape  []int
	index  [3][]int // places of the output's elements, nil where they lie alike

	cond  []bool
	src   [2][]uint8
	dst   []uint8
	piece func(i int)
}

func newSelection(e *engine, s *lower.Step, op *lower.Select) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	t := e.program.Tensors
	c := &selection{par: e.par, dtype: t[s.Outputs[0]].DType}
	for i := range c.tables {
		c.tables[i] = newByteTable(t[s.Inputs[i+1]].DType, c.dtype, steps.Rescaled(op.Rescale[i], op.Lo, op.Hi))
	}
	c.piece = c.runPiece
	return c
}

func (c *selection) run(_ context.Context, s *step, m *memory) error {
	if s.in[0].t == nil {
		return errSlow
	}
	cond, ok := s.in[0].t.Data.([]bool)
	if !ok {
		return errSlow
	}
	if err := c.prepare(s.in); err != nil {
		return err
	}
	c.cond = cond
	for i := range c.src {
		c.src[i] = s.rowMajor(m, s.in[i+1]).codes
	}
	out := m.codes(c.dtype, c.shape, false)
	c.dst = out.codes
	share(c.par, len(c.dst), byteGrain, c.piece)
	s.out[0] = out
	return nil
}

// prepare finds the shape of the output and where its elements come from.
func (c *selection) prepare(in []*value) error {
	same := c.shape != nil
	for i, v := range in {
		same = same && slices.Equal(c.shapes[i], v.shape)
	}
	if same {
		return nil
	}
	shape, err := tensor.Broadcast(in[0].shape, in[1].shape, in[2].shape)
	if err != nil {
		return err
	}
	c.shape = shape
	for i, v := range in {
		c.shapes[i], c.index[i] = slices.Clone(v.shape), nil
		if tensor.Count(v.shape) != tensor.Count(shape) {
			c.index[i] = tensor.BroadcastIndex(shape, v.shape)
		}
	}
	return nil
}

func (c *selection) runPiece(i int) {
	lo, hi := partOf(len(c.dst), byteGrain, i)
	place := func(of, at int) int {
		if c.index[of] == nil {
			return at
		}
		return c.index[of][at]
	}
	for at := lo; at < hi; at++ {
		from := 1
		if c.cond[place(0, at)] {
			from = 0
		}
		c.dst[at] = c.tables[from][c.src[from][place(from+1, at)]]
	}
}
