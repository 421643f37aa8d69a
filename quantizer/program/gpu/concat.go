package gpu

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// concat joins tensors: each is written to its place in the output, brought to the grid of the output on the way.
type concat struct {
	e     *engine
	op    *lower.Concat
	parts []part
}

// part is what becomes of one input.
type part struct {
	from    cuda.Element
	raw     []byte        // a table of 8-bit codes, until it is on the device
	table   cuda.Buffer   // the table
	rescale *cuda.Rescale // of wider codes; nil: limits alone
}

func newConcat(e *engine, s *lower.Step, op *lower.Concat) (kernel, string, error) {
	k := &concat{e: e, op: op, parts: make([]part, len(s.Inputs))}
	to := e.program.Tensors[s.Outputs[0]].DType
	for i, id := range s.Inputs {
		from := e.program.Tensors[id].DType
		k.parts[i].from = e.codeElement(id)
		if from.Bits() == 8 {
			k.parts[i].raw = codeTable(from, to, steps.Rescaled(op.Rescale[i], op.Lo, op.Hi))
		} else if r := op.Rescale[i]; r != nil || from != to {
			q, err := cuda.RescaleOf(r)
			if err != nil {
				return nil, err.Error(), nil
			}
			k.parts[i].rescale = &q
		}
	}
	return k, "", nil
}

func (k *concat) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	first, axis := in[0], k.op.Axis
	if axis >= len(first.shape) {
		return nil, onlyHost("no such axis")
	}
	shape, last := slices.Clone(first.shape), k.e.lasts[s.Outputs[0]] || first.last && first.moved()
	for _, v := range in[1:] {
		if len(v.shape) != len(shape) {
			return nil, fmt.Errorf("rank %d beside %d", len(v.shape), len(shape))
		}
		for a, n := range v.shape {
			if a != axis && n != first.shape[a] {
				return nil, fmt.Errorf("shape %v beside %v along axis %d", v.shape, first.shape, axis)
			}
		}
		shape[axis] += v.shape[axis]
		last = last || v.last && v.moved()
	}
	last = last && len(shape) > 2
	at := axis // in memory
	switch {
	case last && axis == 1:
		at = len(shape) - 1
	case last && axis > 1:
		at = axis - 1
	}
	want := rowLayout
	if last {
		want = lastLayout
	}
	p := k.e.alone(s, shape, last, slices.Repeat([]layout{want}, len(in))...)
	outer := tensor.Count(steps.MemoryShape(shape, last)[:at])
	line := tensor.Count(shape) / outer
	to := k.e.codeElement(s.Outputs[0])
	var lines []cuda.Lines
	var offsets []int
	offset := 0
	for i, v := range in {
		part := &k.parts[i]
		if part.raw != nil {
			var err error
			if part.table, err = k.e.memory.constant(part.raw); err != nil {
				return nil, err
			}
			part.raw = nil
		}
		width := v.len() / outer
		lines, offsets = append(lines, cuda.Lines{N: v.len(), Width: width, Stride: line}), append(offsets, offset*to.Size())
		offset += width
	}
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		for i := range k.parts {
			part, dst := &k.parts[i], out[0].Slice(offsets[i], out[0].Bytes-offsets[i])
			var err error
			switch {
			case part.table.Ptr != 0:
				err = cuda.MapCodes(st, dst, in[i], to, part.from, lines[i], part.table)
			case part.rescale != nil:
				err = cuda.RescaleCodes(st, dst, in[i], to, part.from, lines[i], *part.rescale, k.op.Lo, k.op.Hi)
			default:
				err = cuda.ClampCodes(st, dst, in[i], to, lines[i], k.op.Lo, k.op.Hi)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return p, nil
}
