package cpu

import (
	"context"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// move moves bytes. Where every element goes is found by moving numbers of elements instead of codes, once for a shape; so one
// kernel does for every operator that does not look at its input.
type move struct {
	e    *engine
	op   *lower.Move
	fill uint8 // what is -1 among the numbers

	in    []int
	moves []steps.Move
}

// newMove returns nil for operators with other inputs that are computed. Those that look at the codes have no row.
func newMove(e *engine, s *lower.Step, op *lower.Move) kernel {
	if !steps.EightBit(e.program, s) || len(s.Inputs) != 1 {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	if !in.Quantized() {
		return nil
	}
	return &move{e: e, op: op, fill: uint8(in.Encoding.ZeroPoint + steps.Raised(in.DType))}
}

// prepare finds where every element comes from.
func (c *move) prepare(ctx context.Context, s *step, x *value) error {
	numbers := tensor.New(tensor.Int32, x.shape...)
	for i := range numbers.Len() {
		tensor.Of[int32](numbers)[i] = int32(i)
	}
	outs, err := steps.MoveNumbers(ctx, c.op, numbers, nil)
	if err != nil {
		return errSlow // the reference says what is wrong
	}
	c.moves = nil
	for i, t := range outs {
		if s.Outputs[i] != lower.NoTensor {
			c.moves = append(c.moves, steps.MoveOf(i, tensor.Of[int32](t), t.Shape, len(x.codes)))
		}
	}
	c.in = slices.Clone(x.shape)
	return nil
}

func (c *move) run(ctx context.Context, s *step, m *memory) error {
	x := s.in[0]
	if !slices.Equal(c.in, x.shape) || c.in == nil {
		c.in = nil
		if err := c.prepare(ctx, s, x); err != nil {
			return err
		}
	}
	x = s.rowMajor(m, x)
	for i := range c.moves {
		mv := &c.moves[i]
		if mv.Same {
			s.out[mv.Out] = m.alias(x, mv.Shape, false)
			continue
		}
		out := m.codes(x.dtype, mv.Shape, false)
		moveBytes(c.e.par, out.codes, x.codes, mv, c.fill)
		s.out[mv.Out] = out
	}
	return nil
}

// moveBytes moves bytes; fill is for elements that come from nowhere.
func moveBytes(par kernels.Parallel, dst, src []uint8, m *steps.Move, fill uint8) {
	if m.Same {
		copy(dst, src)
		return
	}
	grain := max(1, byteGrain/(4*max(m.Size, 4)))
	share(par, len(m.Starts), grain, func(i int) {
		lo, hi := partOf(len(m.Starts), grain, i)
		moveSome(dst, src, m, fill, lo, hi)
	})
}

// moveSome moves runs lo to hi.
func moveSome(dst, src []uint8, m *steps.Move, fill uint8, lo, hi int) {
	if m.Size == 1 {
		for i, f := range m.Starts[lo:hi] {
			if f < 0 {
				dst[lo+i] = fill
			} else {
				dst[lo+i] = src[f]
			}
		}
		return
	}
	for i, f := range m.Starts[lo:hi] {
		dst := dst[(lo+i)*m.Size:][:m.Size]
		if f < 0 {
			for k := range dst {
				dst[k] = fill
			}
		} else {
			copy(dst, src[f:])
		}
	}
}
