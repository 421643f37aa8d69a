package program

import (
	"context"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
)

// cpuPair computes every code from two by a table of all pairs.
type cpuPair struct {
	par   kernels.Parallel
	at    func(a, b int32) int32
	from  [2]tensor.DType
	dtype tensor.DType
	table []uint8 // by a*256 + b, made when it is first needed

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

func newCPUPair(e *cpuEngine, s *lower.Step, at func(a, b int32) int32) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	t := e.program.Tensors
	c := &cpuPair{par: e.par, at: at, from: [2]tensor.DType{t[s.Inputs[0]].DType, t[s.Inputs[1]].DType}, dtype: t[s.Outputs[0]].DType}
	c.some = c.runPiece
	return c
}

// prepare finds shape and layout of the output.
func (c *cpuPair) prepare(a, b *value) error {
	shape, err := broadcastShape(a.shape, b.shape)
	if err != nil {
		return err
	}
	c.shapes = [2][]int{slices.Clone(a.shape), slices.Clone(b.shape)}
	c.shape, c.last = shape, len(shape) > 2 && (a.last && len(a.shape) == len(shape) || b.last && len(b.shape) == len(shape))
	for i, v := range []*value{a, b} {
		c.full[i] = append(slices.Repeat([]int{1}, len(shape)-len(v.shape)), v.shape...)
	}
	out := memoryShape(shape, c.last)
	// Axes at the end that both operands walk through in the same way are one run.
	run := len(out)
	for i := range c.full {
		c.full[i] = append(slices.Repeat([]int{1}, len(shape)-len(c.shapes[i])), c.shapes[i]...)
	}
	in := [2][]int{memoryShape(c.full[0], c.last), memoryShape(c.full[1], c.last)}
	kind := func(i, a int) bool { return in[i][a] == out[a] }
	for run > 0 && (run == len(out) || kind(0, run-1) == kind(0, run) && kind(1, run-1) == kind(1, run) || out[run-1] == 1) {
		run--
	}
	for i := range in {
		head := broadcastIndex(out[:run], in[i][:run])
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

// memoryShape is a shape in the order of memory.
func memoryShape(shape []int, last bool) []int {
	if !last {
		return shape
	}
	return append(append([]int{shape[0]}, shape[2:]...), shape[1])
}

func (c *cpuPair) run(_ context.Context, s *cpuStep, m *memory) error {
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
	if c.table == nil {
		c.table = make([]uint8, 1<<16)
		for i := range 256 {
			for k := range 256 {
				c.table[i<<8|k] = uint8(c.at(int32(i)-bias(c.from[0]), int32(k)-bias(c.from[1])) + bias(c.dtype))
			}
		}
	}
	out := m.codes(c.dtype, c.shape, c.last)
	c.dst = out.codes
	share(c.par, len(c.dst), byteGrain, c.some)
	s.out[0] = out
	return nil
}

func (c *cpuPair) runPiece(i int) {
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
func (c *cpuPair) operand(i, run, skip int) ([]uint8, int) {
	l := &c.lines[i]
	return c.src[i][l.start[run]+skip*l.step:], l.step
}

func (c *cpuPair) line(dst, a, b []uint8, sa, sb int) {
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
