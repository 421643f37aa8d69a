package program

import (
	"context"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
)

// byteTable is a function of bytes.
type byteTable [256]uint8

// newByteTable tabulates a function of codes of one 8-bit type, with results of another.
func newByteTable(from, to tensor.DType, f func(q int32) int32) *byteTable {
	var t byteTable
	for i := range t {
		t[i] = uint8(f(int32(i)-bias(from)) + bias(to))
	}
	return &t
}

// byteGrain is how many bytes are worth a piece of their own.
const byteGrain = 1 << 15

// cpuMap is a function of single codes.
type cpuMap struct {
	table    *byteTable
	dtype    tensor.DType
	par      kernels.Parallel
	dst, src []uint8
	piece    func(i int)
}

// eightBit reports whether inputs and outputs of a step that stand for real numbers have 8 bits.
func eightBit(p *lower.Program, s *lower.Step) bool {
	for _, list := range [][]lower.TensorID{s.Inputs, s.Outputs} {
		for _, id := range list {
			if id != lower.NoTensor && p.Tensors[id].Quantized() && p.Tensors[id].DType.Bits() != 8 {
				return false
			}
		}
	}
	return true
}

func newCPUMap(e *cpuEngine, s *lower.Step, f func(q int32) int32) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	in, out := e.program.Tensors[s.Inputs[0]].DType, e.program.Tensors[s.Outputs[0]].DType
	c := &cpuMap{table: newByteTable(in, out, f), dtype: out, par: e.par}
	c.piece = c.runPiece
	return c
}

func newCPUTable(e *cpuEngine, s *lower.Step, op *lower.Table) cpuKernel {
	entries := op.Codes.Integers()
	return newCPUMap(e, s, func(q int32) int32 { return entries[int(q)&(len(entries)-1)] })
}

func (c *cpuMap) run(_ context.Context, s *cpuStep, m *memory) error {
	x := s.in[0]
	out := m.codes(c.dtype, x.shape, x.last)
	c.dst, c.src = out.codes, x.codes
	share(c.par, len(x.codes), byteGrain, c.piece)
	s.out[0] = out
	return nil
}

func (c *cpuMap) runPiece(i int) {
	lo, hi := partOf(len(c.src), byteGrain, i)
	c.table.look(c.dst[lo:hi], c.src[lo:hi])
}

// look writes the table's entry for every byte of src.
func (t *byteTable) look(dst, src []uint8) {
	dst = dst[:len(src)]
	for i, q := range src {
		dst[i] = t[q]
	}
}

// share calls piece for consecutive parts of n elements, of about grain each, whose bounds partOf has.
func share(par kernels.Parallel, n, grain int, piece func(i int)) {
	parts := partsOf(n, grain)
	if par == nil || parts == 1 {
		for i := range parts {
			piece(i)
		}
		return
	}
	par(parts, piece)
}

func partsOf(n, grain int) int { return max(1, min(n/grain, 64)) }

// partOf returns the bounds of part i of what share cuts.
func partOf(n, grain, i int) (lo, hi int) {
	parts := partsOf(n, grain)
	return n * i / parts, n * (i + 1) / parts
}
