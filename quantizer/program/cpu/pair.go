package cpu

import (
	"context"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// pair computes every code from two by a table of all pairs.
type pair struct {
	par   kernels.Parallel
	at    func(a, b int32) int32
	from  [2]tensor.DType
	dtype tensor.DType
	table []uint8 // by a*256 + b, made when it is first needed
	// sum, where it is set, computes the same as at for operands that lie alike.
	sum     *kernels.AddCodes
	kernels *kernels.Table

	// For the shapes at hand.
	shapes [2][]int
	last   bool
	shape  []int
	full   [2][]int // shapes of the rank of shape
	lines  [2]lines

	dst  []uint8
	src  [2][]uint8
	some func(i int)
}

// lines says where the bytes for runs of the output lie in an operand: run i begins at start[i], and step is the distance between
// its bytes, 0 or 1.
type lines struct {
	start []int
	step  int
}

func newPair(e *engine, s *lower.Step, at func(a, b int32) int32) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	t := e.program.Tensors
	c := &pair{par: e.par, at: at, kernels: e.table, from: [2]tensor.DType{t[s.Inputs[0]].DType, t[s.Inputs[1]].DType},
		dtype: t[s.Outputs[0]].DType}
	c.some = c.runPiece
	return c
}

// newSum is newPair for sums, whose float forms have a kernel.
func newSum(e *engine, s *lower.Step, op *lower.Sum) kernel {
	k := newPair(e, s, op.Sum.At)
	if c, ok := k.(*pair); ok {
		c.sum = addCodes(&op.Sum, steps.Raised(c.from[0]), steps.Raised(c.from[1]), steps.Raised(c.dtype))
	}
	return k
}

// addCodes returns the kernel's form of a sum of bytes, which are codes plus a bias each; nil where it has none.
func addCodes(q *qmath.Sum, a, b, y int32) *kernels.AddCodes {
	var s kernels.AddCodes
	switch q.Form {
	case qmath.SumFused: // the zero point is inside the rounding
		s = kernels.AddCodes{Fused: true, ZA: uint8(a), ZB: uint8(b), FA: q.RA, FB: q.RB, K: q.K}
		s.Requantized = kernels.Requantized{Lo: float32(q.Y.QMin), Hi: float32(q.Y.QMax), Zero: y}
	case qmath.SumFloat:
		a, b = a+q.A.ZeroPoint, b+q.B.ZeroPoint
		to, ok := toCodes(q.Quantizer, y)
		if a < 0 || a > 255 || b < 0 || b > 255 || !ok || to.Away {
			return nil
		}
		s = kernels.AddCodes{ZA: uint8(a), ZB: uint8(b), FA: q.A.Scale, FB: q.B.Scale, Factor: to.Factor, Divisor: to.Divisor,
			Requantized: to.Requantized}
		if q.Subtract {
			s.FB = -s.FB
		}
	default:
		return nil
	}
	if s.Check() != nil {
		return nil
	}
	return &s
}

// prepare finds shape and layout of the output.
func (c *pair) prepare(a, b *value) error {
	shape, err := tensor.Broadcast(a.shape, b.shape)
	if err != nil {
		return err
	}
	c.shapes = [2][]int{slices.Clone(a.shape), slices.Clone(b.shape)}
	c.shape, c.last = shape, len(shape) > 2 && (a.last && len(a.shape) == len(shape) || b.last && len(b.shape) == len(shape))
	out := steps.MemoryShape(shape, c.last)
	for i := range c.full {
		c.full[i] = append(slices.Repeat([]int{1}, len(shape)-len(c.shapes[i])), c.shapes[i]...)
	}
	in := [2][]int{steps.MemoryShape(c.full[0], c.last), steps.MemoryShape(c.full[1], c.last)}
	// Axes at the end that each operand has, or each has not, are one run.
	run, has, known := len(out), [2]bool{}, false
	for ; run > 0; run-- {
		if n := out[run-1]; n != 1 {
			now := [2]bool{in[0][run-1] == n, in[1][run-1] == n}
			if known && now != has {
				break
			}
			has, known = now, true
		}
	}
	for i := range in {
		head := tensor.BroadcastIndex(out[:run], in[i][:run])
		size := tensor.Count(in[i][run:])
		c.lines[i] = lines{start: head}
		for k := range head {
			head[k] *= size
		}
		if size == tensor.Count(out[run:]) {
			c.lines[i].step = 1
		}
	}
	return nil
}

func (c *pair) run(_ context.Context, s *step, m *memory) error {
	a, b := s.in[0], s.in[1]
	if !slices.Equal(c.shapes[0], a.shape) || !slices.Equal(c.shapes[1], b.shape) || c.shape == nil {
		if err := c.prepare(a, b); err != nil {
			return err
		}
	}
	for i, v := range s.in {
		if len(v.shape) < len(c.shape) {
			v = m.alias(s.rowMajor(m, v), c.full[i], false)
		}
		c.src[i] = s.laid(m, v, c.last).codes
	}
	if c.table == nil && (c.sum == nil || c.lines[0].step == 0 || c.lines[1].step == 0) {
		c.table = make([]uint8, 1<<16)
		for i := range 256 {
			for k := range 256 {
				c.table[i<<8|k] = uint8(c.at(int32(i)-steps.Raised(c.from[0]), int32(k)-steps.Raised(c.from[1])) + steps.Raised(c.dtype))
			}
		}
	}
	out := m.codes(c.dtype, c.shape, c.last)
	c.dst = out.codes
	share(c.par, len(c.dst), byteGrain, c.some)
	s.out[0] = out
	return nil
}

func (c *pair) runPiece(i int) {
	lo, hi := partOf(len(c.dst), byteGrain, i)
	size := len(c.dst) / max(len(c.lines[0].start), 1)
	for lo < hi {
		run, skip := lo/size, lo%size
		n := min(size-skip, hi-lo)
		a, sa := c.operand(0, run, skip)
		b, sb := c.operand(1, run, skip)
		c.line(c.dst[lo:][:n], a, b, sa, sb)
		lo += n
	}
}

// operand returns the bytes of an operand from position skip of a run on, and their distance.
func (c *pair) operand(i, run, skip int) ([]uint8, int) {
	l := &c.lines[i]
	return c.src[i][l.start[run]+skip*l.step:], l.step
}

func (c *pair) line(dst, a, b []uint8, sa, sb int) {
	if sa == 1 && sb == 1 && c.sum != nil {
		c.kernels.AddCodes(dst, a, b, c.sum)
		return
	}
	table := c.table[:1<<16]
	switch {
	case sa == 1 && sb == 1:
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = table[int(a[i])<<8|int(b[i])]
		}
	case sa == 1:
		for i, q := range a[:len(dst)] {
			dst[i] = table[int(q)<<8|int(b[0])]
		}
	default:
		row := table[int(a[0])<<8:][:256]
		for i := range dst {
			dst[i] = row[b[i*sb]]
		}
	}
}
