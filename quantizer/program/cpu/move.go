package cpu

import (
	"context"
	"slices"

	"qwb/graph/tensor"
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

	src, dst []uint8
	at       *steps.Move
	piece    func(i int)
}

// newMove returns nil for operators that look at the codes and for those with other inputs that are computed.
func newMove(e *engine, s *lower.Step, op *lower.Move) kernel {
	if !steps.EightBit(e.program, s) || len(s.Inputs) != 1 || slices.Contains(steps.Looks, op.Name()) {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	if !in.Quantized() {
		return nil
	}
	c := &move{e: e, op: op, fill: uint8(in.Encoding.ZeroPoint + steps.Raised(in.DType))}
	c.piece = c.runPiece
	return c
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
		c.src, c.dst, c.at = x.codes, out.codes, mv
		share(c.e.par, len(mv.Starts), grainOf(mv), c.piece)
		s.out[mv.Out] = out
	}
	return nil
}

func grainOf(m *steps.Move) int { return max(1, byteGrain/(4*max(m.Size, 4))) }

func (c *move) runPiece(i int) {
	mv := c.at
	lo, hi := partOf(len(mv.Starts), grainOf(mv), i)
	if mv.Size == 1 {
		for i, f := range mv.Starts[lo:hi] {
			if f < 0 {
				c.dst[lo+i] = c.fill
			} else {
				c.dst[lo+i] = c.src[f]
			}
		}
		return
	}
	for i, f := range mv.Starts[lo:hi] {
		dst := c.dst[(lo+i)*mv.Size:][:mv.Size]
		if f < 0 {
			for k := range dst {
				dst[k] = c.fill
			}
		} else {
			copy(dst, c.src[f:])
		}
	}
}
