package cpu

import (
	"context"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// softmax is the softmax of rows that lie together.
type softmax struct {
	par     kernels.Parallel
	profile qmath.Profile
	op      *lower.Softmax
	from    tensor.DType
	dtype   tensor.DType

	rows  *qmath.Softmax
	inner int // the distance between the elements of a row
	src   []uint8
	dst   []uint8
	codes []int32
	piece func(i int)
}

func newSoftmax(e *engine, s *lower.Step, op *lower.Softmax) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	t := e.program.Tensors
	c := &softmax{par: e.par, profile: e.program.Profile, op: op, from: t[s.Inputs[0]].DType, dtype: t[s.Outputs[0]].DType}
	c.piece = c.runPiece
	return c
}

func (c *softmax) run(_ context.Context, s *step, m *memory) error {
	x := s.in[0]
	if c.op.Axis >= len(x.shape) || len(x.codes) == 0 {
		return errSlow
	}
	x, c.inner = s.rowMajor(m, x), tensor.Count(x.shape[c.op.Axis+1:])
	n := x.shape[c.op.Axis]
	if c.rows == nil || c.rows.N != n {
		rows, err := c.op.For(c.profile, n)
		if err != nil {
			return err
		}
		c.rows = rows
	}
	if len(c.codes) < len(x.codes) {
		c.codes = make([]int32, len(x.codes))
	}
	out := m.codes(c.dtype, x.shape, false)
	c.src, c.dst = x.codes, out.codes
	share(c.par, len(c.src)/n, c.grain(), c.piece)
	s.out[0] = out
	return nil
}

func (c *softmax) grain() int { return max(1, byteGrain/8/c.rows.N) }

func (c *softmax) runPiece(i int) {
	n := c.rows.N
	lo, hi := partOf(len(c.src)/n, c.grain(), i)
	for r := lo; r < hi; r++ {
		row, at := c.codes[r*n:][:n], r/c.inner*c.inner*n+r%c.inner
		for k := range row {
			row[k] = int32(c.src[at+k*c.inner]) - steps.Raised(c.from)
		}
		c.rows.Row(row, row)
		for k, q := range row {
			c.dst[at+k*c.inner] = uint8(q + steps.Raised(c.dtype))
		}
	}
}
