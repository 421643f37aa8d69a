package cpu

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// quantize makes codes of float32 numbers.
type quantize struct {
	par   kernels.Parallel
	coder *coder
	dtype tensor.DType
	last  bool
}

func newQuantize(e *engine, s *lower.Step, op *lower.Quantize) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	out := s.Outputs[0]
	d := e.program.Tensors[out].DType
	return &quantize{par: e.par, coder: newCoder(e, s.Inputs[0], op.Quantizer, d), dtype: d, last: e.lasts[out]}
}

func (c *quantize) run(_ context.Context, s *step, m *memory) error {
	x := s.in[0].t
	if x == nil || x.DType != tensor.Float32 {
		return errSlow
	}
	out := m.codes(c.dtype, x.Shape, false)
	c.coder.run(c.par, out.codes, x.F32())
	if err := c.coder.failed(s.engine.program.Tensors[s.Inputs[0]].Name); err != nil {
		return err
	}
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
	nan       atomic.Bool // one was among the numbers: see failed
	odd       *sim.Odd    // gets name where an infinite number was
	name      string
	meters    sync.Pool // of *kernels.Meter

	dst   []uint8
	src   []float32
	piece func(i int)
}

// failed is the error of NaN among the numbers that were coded since it was asked last.
func (c *coder) failed(name string) error {
	if c.nan.Load() {
		c.nan.Store(false)
		return &tqc.NaN{Tensor: name}
	}
	return nil
}

func newCoder(e *engine, id lower.TensorID, q qmath.Quantizer, d tensor.DType) *coder {
	c := &coder{table: e.table, odd: &e.odd, name: e.program.Tensors[id].Name, quantizer: q, bias: steps.Raised(d)}
	c.to, c.fast = toCodes(q, c.bias)
	c.meters.New = func() any { return e.table.NewMeter() }
	c.piece = c.runPiece
	return c
}

// toCodes returns the kernel's form of a quantizer to bytes, which are codes plus a bias; false where it has none.
func toCodes(q qmath.Quantizer, bias int32) (kernels.ToCodes, bool) {
	to := kernels.CodesOf(q.Grid, bias)
	if q.Reciprocal != 0 {
		to.Factor, to.Divisor = q.Reciprocal, 1
	}
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
	c.code(c.dst[lo:hi], c.src[lo:hi])
}

// code writes the byte of every number. NaN has none.
func (c *coder) code(dst []uint8, src []float32) {
	m := c.meters.Get().(*kernels.Meter)
	if _, _, finite := m.MinMax(src); !finite {
		if slices.ContainsFunc(src, func(v float32) bool { return v != v }) {
			c.nan.Store(true)
		} else {
			c.odd.Add(c.name)
		}
	}
	c.meters.Put(m)
	if c.fast {
		c.table.ToCodes(dst, src, &c.to)
		return
	}
	for i, v := range src {
		dst[i] = uint8(c.quantizer.At(v) + c.bias)
	}
}

// dequantize makes float32 numbers of codes.
type dequantize struct {
	par   kernels.Parallel
	table *kernels.Table
	zero  int32
	scale float32
	dst   []float32
	src   []uint8
	piece func(i int)
}

func newDequantize(e *engine, s *lower.Step, _ *lower.Dequantize) kernel {
	if !steps.EightBit(e.program, s) {
		return nil
	}
	in := &e.program.Tensors[s.Inputs[0]]
	c := &dequantize{par: e.par, table: e.table, zero: in.Encoding.ZeroPoint + steps.Raised(in.DType), scale: in.Encoding.Scale}
	if c.zero < 0 || c.zero > 255 {
		return nil
	}
	c.piece = c.runPiece
	return c
}

func (c *dequantize) run(_ context.Context, s *step, m *memory) error {
	x := s.rowMajor(m, s.in[0])
	out := m.floats(x.shape)
	c.dst, c.src = out.t.F32(), x.codes
	share(c.par, len(c.src), byteGrain, c.piece)
	s.out[0] = out
	return nil
}

func (c *dequantize) runPiece(i int) {
	lo, hi := partOf(len(c.src), byteGrain, i)
	c.table.FromCodes(c.dst[lo:hi], c.src[lo:hi], uint8(c.zero), c.scale)
}
