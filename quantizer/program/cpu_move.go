package program

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// cpuMove moves bytes. Where every element goes is found by moving numbers of elements instead of codes, once for a shape; so one
// kernel does for every operator that does not look at its input.
type cpuMove struct {
	e    *cpuEngine
	op   *lower.Move
	fill uint8 // what is -1 among the numbers

	in    []int
	moves []move

	src, dst []uint8
	at       *move
	piece    func(i int)
}

// move is where the elements of one output come from.
type move struct {
	out    int // number of the output
	shape  []int
	same   bool // the bytes are those of the input
	size   int  // runs of so many bytes lie together
	starts []int32
}

// looks are operators whose result depends on the codes.
var looks = []string{"ReduceMax", "ReduceMin"}

// newCPUMove returns nil for operators that look at the codes and for those with other inputs that are computed.
func newCPUMove(e *cpuEngine, s *lower.Step, op *lower.Move) cpuKernel {
	if !eightBit(e.program, s) || len(s.Inputs) != 1 || slices.Contains(looks, op.Name()) {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	if !in.Quantized() {
		return nil
	}
	c := &cpuMove{e: e, op: op, fill: uint8(in.Encoding.ZeroPoint + bias(in.DType))}
	c.piece = c.runPiece
	return c
}

// prepare finds where every element comes from.
func (c *cpuMove) prepare(ctx context.Context, s *cpuStep, x *value) error {
	numbers := tensor.New(tensor.Int32, x.shape...)
	for i := range numbers.Len() {
		tensor.Of[int32](numbers)[i] = int32(i)
	}
	outs, err := moveNumbers(ctx, c.op, numbers, nil)
	if err != nil {
		return errSlow // the reference says what is wrong
	}
	c.moves = nil
	for i, t := range outs {
		if s.Outputs[i] != lower.NoTensor {
			c.moves = append(c.moves, moveOf(i, tensor.Of[int32](t), t.Shape, len(x.codes)))
		}
	}
	c.in = slices.Clone(x.shape)
	return nil
}

// moveNumbers runs an operator that moves elements on numbers in their place; -1 stands for the fill of a Pad. others are the
// operator's further inputs.
func moveNumbers(ctx context.Context, op *lower.Move, numbers *tensor.Tensor, others []*tensor.Tensor) ([]*tensor.Tensor, error) {
	g := op.Graph.Clone()
	node := g.Node(g.Nodes()[0])
	g.Value(g.Inputs[0]).DType = tensor.Int32
	for _, v := range g.Outputs {
		g.Value(v).DType = tensor.Int32
	}
	if node.Op == "Pad" && len(node.Inputs) > 2 && node.Inputs[2] != graph.NoValue {
		outside := tensor.New(tensor.Int32)
		tensor.Of[int32](outside)[0] = -1
		g.SetInput(node.ID, 2, g.AddConst(g.FreshName("outside"), outside))
	}
	session, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: numbers}
	for i, t := range others {
		feeds[g.Value(g.Inputs[i+1]).Name] = t
	}
	return session.NewRunner().Run(ctx, feeds, nil)
}

// moveOf describes an output whose elements come from the given places of an input of n elements.
func moveOf(out int, from []int32, shape []int, n int) move {
	m := move{out: out, shape: slices.Clone(shape), same: len(from) == n}
	for i, f := range from {
		m.same = m.same && int(f) == i
	}
	if m.same {
		return m
	}
	for m.size = len(from); m.size > 1; m.size = smaller(len(from), m.size) {
		if together(from, m.size) {
			break
		}
	}
	for i := 0; i < len(from); i += max(m.size, 1) {
		m.starts = append(m.starts, from[i])
	}
	return m
}

// smaller returns the largest divisor of n below size.
func smaller(n, size int) int {
	for size--; size > 1 && n%size != 0; size-- {
	}
	return size
}

// together reports whether runs of size elements come from consecutive places.
func together(from []int32, size int) bool {
	for i := 0; i < len(from); i += size {
		for k, f := range from[i : i+size] {
			if from[i] < 0 && f >= 0 || from[i] >= 0 && f != from[i]+int32(k) {
				return false
			}
		}
	}
	return true
}

func (c *cpuMove) run(ctx context.Context, s *cpuStep, m *memory) error {
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
		if mv.same {
			s.out[mv.out] = m.alias(x, mv.shape, false)
			continue
		}
		out := m.codes(x.dtype, mv.shape, false)
		c.src, c.dst, c.at = x.codes, out.codes, mv
		share(c.e.par, len(mv.starts), mv.grain(), c.piece)
		s.out[mv.out] = out
	}
	return nil
}

func (m *move) grain() int { return max(1, byteGrain/(4*max(m.size, 4))) }

func (c *cpuMove) runPiece(i int) {
	mv := c.at
	lo, hi := partOf(len(mv.starts), mv.grain(), i)
	if mv.size == 1 {
		for i, f := range mv.starts[lo:hi] {
			if f < 0 {
				c.dst[lo+i] = c.fill
			} else {
				c.dst[lo+i] = c.src[f]
			}
		}
		return
	}
	for i, f := range mv.starts[lo:hi] {
		dst := c.dst[(lo+i)*mv.size:][:mv.size]
		if f < 0 {
			for k := range dst {
				dst[k] = c.fill
			}
		} else {
			copy(dst, c.src[f:])
		}
	}
}
