package program

import (
	"context"

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
	par   kernels.Parallel
	coder *coder
	dtype tensor.DType
	last  bool
}

func newCPUQuantize(e *cpuEngine, s *lower.Step, op *lower.Quantize) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	out := s.Outputs[0]
	d := e.program.Tensors[out].DType
	return &cpuQuantize{par: e.par, coder: newCoder(e.table, op.Quantizer, d), dtype: d, last: e.lasts[out]}
}

func (c *cpuQuantize) run(_ context.Context, s *cpuStep, m *memory) error {
	x := s.in[0].t
	if x == nil || x.DType != tensor.Float32 {
		return errSlow
	}
	out := m.codes(c.dtype, x.Shape, false)
	c.coder.run(c.par, out.codes, x.F32())
	if c.last {
		out = s.channelsLast(m, out)
	}
	s.out[0] = out
	return nil
}

// coder makes bytes of float32 numbers: by the kernel where it rounds as the quantizer does.
type coder struct {
	table     *kernels.Table
	quantizer qmath.Quantizer
	to        kernels.ToCodes
	fast      bool
	bias      int32

	dst   []uint8
	src   []float32
	piece func(i int)
}

func newCoder(t *kernels.Table, q qmath.Quantizer, d tensor.DType) *coder {
	c := &coder{table: t, quantizer: q, bias: bias(d)}
	c.to, c.fast = toCodes(q, c.bias)
	c.piece = c.runPiece
	return c
}

// toCodes returns the kernel's form of a quantizer to bytes, which are codes plus a bias; false where it has none.
func toCodes(q qmath.Quantizer, bias int32) (kernels.ToCodes, bool) {
	to := kernels.ToCodes{Factor: 1, Divisor: q.Scale}
	if q.Reciprocal != 0 {
		to.Factor, to.Divisor = q.Reciprocal, 1
	}
	to.Requantized = kernels.Requantized{Lo: float32(q.QMin - q.ZeroPoint), Hi: float32(q.QMax - q.ZeroPoint), Zero: q.ZeroPoint + bias}
	to.Away = q.Rounding == qmath.HalfAwayFromZero
	zero := q.ZeroPoint >= q.QMin && q.ZeroPoint <= q.QMax // NaN gives the zero point, limited or not
	return to, zero && (to.Away || q.Rounding == qmath.HalfEven) && to.Check() == nil
}

func (c *coder) run(par kernels.Parallel, dst []uint8, src []float32) {
	c.dst, c.src = dst, src
	share(par, len(src), byteGrain, c.piece)
	c.dst, c.src = nil, nil
}

func (c *coder) runPiece(i int) {
	lo, hi := partOf(len(c.src), byteGrain, i)
	dst, src := c.dst[lo:hi], c.src[lo:hi]
	if c.fast {
		c.table.ToCodes(dst, src, &c.to)
		return
	}
	for i, v := range src {
		dst[i] = uint8(c.quantizer.At(v) + c.bias)
	}
}

// cpuDequantize makes float32 numbers of codes.
type cpuDequantize struct {
	par   kernels.Parallel
	table *kernels.Table
	zero  int32
	scale float32
	dst   []float32
	src   []uint8
	piece func(i int)
}

func newCPUDequantize(e *cpuEngine, s *lower.Step) cpuKernel {
	if !eightBit(e.program, s) {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	c := &cpuDequantize{par: e.par, table: e.table, zero: in.Encoding.ZeroPoint + bias(in.DType), scale: in.Encoding.Scale}
	if c.zero < 0 || c.zero > 255 {
		return nil
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
	c.table.FromCodes(c.dst[lo:hi], c.src[lo:hi], uint8(c.zero), c.scale)
}
