package cpu

import (
	"context"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// byteTable is a function of bytes.
type byteTable [256]uint8

// newByteTable tabulates a function of codes of one 8-bit type, with results of another.
func newByteTable(from, to tensor.DType, f func(q int32) int32) *byteTable {
	var t byteTable
	for i := range t {
		t[i] = uint8(f(int32(i)-steps.Raised(from)) + steps.Raised(to))
	}
	return &t
}

// byteGrain is how many bytes are worth a piece of their own.
const byteGrain = 1 << 15

// lookup is a function of single codes.
type lookup struct {
	table    *byteTable
	dtype    tensor.DType
	par      kernels.Parallel
	dst, src []uint8
	piece    func(i int)
}

func newLookup(e *engine, s *lower.Step, f func(q int32) int32) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	in, out := e.program.Tensors[s.Inputs[0]].DType, e.program.Tensors[s.Outputs[0]].DType
	c := &lookup{table: newByteTable(in, out, f), dtype: out, par: e.par}
	c.piece = c.runPiece
	return c
}

func newTable(e *engine, s *lower.Step, op *lower.Table) kernel {
	entries := op.Codes.Integers()
	return newLookup(e, s, func(q int32) int32 { return entries[int(q)&(len(entries)-1)] })
}

func (c *lookup) run(_ context.Context, s *step, m *memory) error {
	x := s.in[0]
	out := m.codes(c.dtype, x.shape, x.last)
	c.dst, c.src = out.codes, x.codes
	share(c.par, len(x.codes), byteGrain, c.piece)
	s.out[0] = out
	return nil
}

func (c *lookup) runPiece(i int) {
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
