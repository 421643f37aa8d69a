package program

import (
	"context"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
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
	entries := lower.Codes(op.Codes)
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

// cpuQuantize makes codes of float32 numbers.
type cpuQuantize struct {
	par       kernels.Parallel
	quantizer qmath.Quantizer
	dtype     tensor.DType
	last      bool
}

func newCPUQuantize(e *cpuEngine, s *lower.Step, op *lower.Quantize) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	out := s.Outputs[0]
	return &cpuQuantize{par: e.par, quantizer: op.Quantizer, dtype: e.program.Tensors[out].DType, last: e.lasts[out]}
}

func (c *cpuQuantize) run(_ context.Context, s *cpuStep, m *memory) error {
	x := s.in[0].t
	if x == nil || x.DType != tensor.Float32 {
		return errSlow
	}
	out := m.codes(c.dtype, x.Shape, false)
	quantizeCodes(c.par, out.codes, x.F32(), c.quantizer, uint8(bias(c.dtype)))
	if c.last {
		out = s.channelsLast(m, out)
	}
	s.out[0] = out
	return nil
}

// quantizeCodes writes the codes of x, plus flip, as bytes.
func quantizeCodes(par kernels.Parallel, dst []uint8, x []float32, q qmath.Quantizer, flip uint8) {
	narrow := q.Narrow()
	piece := func(i int) {
		lo, hi := partOf(len(x), byteGrain, i)
		if narrow {
			quantizeNarrow(dst[lo:hi], x[lo:hi], q, flip)
			return
		}
		for i, v := range x[lo:hi] {
			dst[lo+i] = uint8(q.At(v) + int32(flip))
		}
	}
	share(par, len(x), byteGrain, piece)
}

// quantizeNarrow is Quantizer.At where the rounding is half to even: adding 1.5*2^23 to a float32 below 2^22 leaves the rounded
// integer in its low bits.
func quantizeNarrow(dst []uint8, x []float32, q qmath.Quantizer, flip uint8) {
	const magic = 3 << 22
	lo, hi := float32(q.QMin-q.ZeroPoint), float32(q.QMax-q.ZeroPoint)
	add := q.ZeroPoint + int32(flip)
	dst = dst[:len(x)]
	for i, v := range x {
		if q.Reciprocal == 0 {
			v /= q.Scale
		} else {
			v *= q.Reciprocal
		}
		if v != v {
			v = 0
		}
		v = min(max(v, lo), hi)
		dst[i] = uint8(int32(math.Float32bits(v+magic)&(1<<23-1)) - 1<<22 + add)
	}
}

// cpuDequantize makes float32 numbers of codes.
type cpuDequantize struct {
	par   kernels.Parallel
	table [256]float32
	dst   []float32
	src   []uint8
	piece func(i int)
}

func newCPUDequantize(e *cpuEngine, s *lower.Step) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	c := &cpuDequantize{par: e.par}
	for i := range c.table {
		c.table[i] = in.Encoding.Grid().Dequantize(int32(i) - bias(in.DType))
	}
	c.piece = c.runPiece
	return c
}

func (c *cpuDequantize) run(_ context.Context, s *cpuStep, m *memory) error {
	x := s.rowMajor(m, s.in[0])
	out := m.floats(x.shape)
	c.dst, c.src = out.t.F32(), x.codes
	share(c.par, len(c.src), byteGrain, c.piece)
	s.out[0] = out
	return nil
}

func (c *cpuDequantize) runPiece(i int) {
	lo, hi := partOf(len(c.src), byteGrain, i)
	dst := c.dst[lo:hi]
	for i, q := range c.src[lo:hi] {
		dst[i] = c.table[q]
	}
}
