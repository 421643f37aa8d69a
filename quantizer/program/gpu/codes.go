package gpu

import (
	"context"
	"encoding/binary"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// elementOf is a type as kernels have it; 0 for types that they do not have.
func elementOf(d tensor.DType) cuda.Element {
	switch d {
	case tensor.Int8:
		return cuda.Int8
	case tensor.Uint8, tensor.Bool:
		return cuda.Uint8
	case tensor.Int16:
		return cuda.Int16
	case tensor.Uint16:
		return cuda.Uint16
	case tensor.Float32:
		return cuda.Float32
	case tensor.Int32:
		return cuda.Int32
	}
	return 0
}

// codeElement is elementOf of a tensor of codes.
func (e *engine) codeElement(id lower.TensorID) cuda.Element {
	return elementOf(e.program.Tensors[id].DType)
}

// alone is a step of one output of a shape and layout, made of inputs in given layouts.
func (e *engine) alone(s *step, shape []int, last bool, in ...layout) *prepared {
	return &prepared{in: in, out: []*output{{dtype: e.program.Tensors[s.Outputs[0]].DType, shape: slices.Clone(shape),
		last: last && len(shape) > 2, alias: -1}}}
}

// codeTable lists what a function makes of every code, by the raw bits of the code.
func codeTable(from, to tensor.DType, f func(q int32) int32) []byte {
	raw := make([]byte, 0, to.Bytes(1)<<from.Bits())
	for i := range int32(1) << from.Bits() {
		switch from {
		case tensor.Int8:
			i = int32(int8(i))
		case tensor.Int16:
			i = int32(int16(i))
		}
		if q := f(i); to.Bits() == 8 {
			raw = append(raw, byte(q))
		} else {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(q))
		}
	}
	return raw
}

// lookup is a function of single codes, by a table of all of them.
type lookup struct {
	e        *engine
	from, to cuda.Element
	raw      []byte
	table    cuda.Buffer
}

func newLookup(e *engine, from, to tensor.DType, f func(q int32) int32) *lookup {
	m := &lookup{e: e, raw: codeTable(from, to, f)}
	m.from = elementOf(from)
	m.to = elementOf(to)
	return m
}

func (m *lookup) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	if m.table.Ptr == 0 {
		var err error
		if m.table, err = m.e.memory.constant(m.raw); err != nil {
			return nil, err
		}
		m.raw = nil
	}
	p, n := m.e.alone(s, in[0].shape, in[0].last, anyLayout), in[0].len()
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.MapCodes(st, out[0], in[0], m.to, m.from, cuda.Lines{N: n}, m.table)
	}
	return p, nil
}

// rescale brings 16-bit codes to another grid, or limits them.
type rescale struct {
	e        *engine
	from, to cuda.Element
	rescale  *cuda.Rescale // nil: limits alone
	lo, hi   int32
}

// newRescale returns the kernel of Requantize and Clamp: a table of 8-bit codes, arithmetic for wider ones.
func newRescale(e *engine, s *lower.Step, r *qmath.Rescale, lo, hi int32) (kernel, string, error) {
	from, to := e.program.Tensors[s.Inputs[0]].DType, e.program.Tensors[s.Outputs[0]].DType
	if from.Bits() == 8 {
		return newLookup(e, from, to, steps.Rescaled(r, lo, hi)), "", nil
	}
	k := &rescale{e: e, from: e.codeElement(s.Inputs[0]), to: e.codeElement(s.Outputs[0]), lo: lo, hi: hi}
	if r != nil {
		q, err := cuda.RescaleOf(r)
		if err != nil {
			return nil, err.Error(), nil
		}
		k.rescale = &q
	}
	return k, "", nil
}

func (k *rescale) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	p, n := k.e.alone(s, in[0].shape, in[0].last, anyLayout), in[0].len()
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		if k.rescale == nil {
			return cuda.ClampCodes(st, out[0], in[0], k.to, cuda.Lines{N: n}, k.lo, k.hi)
		}
		return cuda.RescaleCodes(st, out[0], in[0], k.to, k.from, cuda.Lines{N: n}, *k.rescale, k.lo, k.hi)
	}
	return p, nil
}

// newTable returns the kernel of a table, whose entries have the order of the device's.
func newTable(e *engine, s *lower.Step, op *lower.Table) kernel {
	raw := slices.Clone(bytesOf(op.Codes.ToRowMajor()))
	return &lookup{e: e, from: e.codeElement(s.Inputs[0]), to: e.codeElement(s.Outputs[0]), raw: raw}
}

// quantize makes codes of float32 numbers.
type quantize struct {
	e  *engine
	to cuda.Element
	q  cuda.Quantizer
}

func newQuantize(e *engine, s *lower.Step, op *lower.Quantize) (kernel, string, error) {
	if d := e.program.Tensors[s.Inputs[0]].DType; d != tensor.Float32 {
		return nil, "it quantizes " + d.String(), nil
	}
	q, err := cuda.QuantizerOf(op.Quantizer)
	if err != nil {
		return nil, err.Error(), nil
	}
	return &quantize{e, e.codeElement(s.Outputs[0]), q}, "", nil
}

func (k *quantize) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	p, n := k.e.alone(s, in[0].shape, in[0].last, anyLayout), in[0].len()
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.QuantizeCodes(st, out[0], in[0], k.to, n, k.q, k.e.met.of(s.Step))
	}
	return p, nil
}

// dequantize makes float32 numbers of codes.
type dequantize struct {
	e    *engine
	from cuda.Element
	enc  lower.Encoding
}

func (k *dequantize) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	p, n := k.e.alone(s, in[0].shape, in[0].last, anyLayout), in[0].len()
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.DequantizeCodes(st, out[0], in[0], k.from, n, k.enc.ZeroPoint, k.enc.Scale)
	}
	return p, nil
}

// softmax is the softmax of rows.
type softmax struct {
	e  *engine
	op *lower.Softmax
}

func (k *softmax) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	shape := in[0].shape
	if k.op.Axis >= len(shape) {
		return nil, onlyHost("no such axis")
	}
	rows, err := k.op.For(k.e.program.Profile, shape[k.op.Axis])
	if err != nil {
		return nil, err
	}
	table, err := k.e.memory.constant(cuda.PackSoftmax(rows))
	if err != nil {
		return nil, err
	}
	m := cuda.SoftmaxOf(rows, table.Ptr)
	outer, inner := tensor.Count(shape[:k.op.Axis]), tensor.Count(shape[k.op.Axis+1:])
	p := k.e.alone(s, shape, false, rowLayout)
	p.owned = []cuda.Buffer{table}
	to, from := k.e.codeElement(s.Outputs[0]), k.e.codeElement(s.Inputs[0])
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return cuda.SoftmaxCodes(st, out[0], in[0], to, from, outer, shape[k.op.Axis], inner, m)
	}
	return p, nil
}
