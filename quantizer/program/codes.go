package program

import (
	"context"
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// one wraps the only output of a step.
func one(t *tensor.Tensor, err error) ([]*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{t}, nil
}

// output is the declaration of output k of a step.
func output(p *lower.Program, s *lower.Step, k int) *lower.Tensor { return &p.Tensors[s.Outputs[k]] }

// mapped is a kernel that applies f to every code.
func mapped(p *lower.Program, s *lower.Step, f func(q int32) int32) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		codes := mapCodes(in[0], f)
		return one(tqc.Narrow(out.DType, in[0].Shape, codes))
	}
}

// mapCodes applies f to every code of a tensor. f is called once for each 8-bit code.
func mapCodes(t *tensor.Tensor, f func(q int32) int32) []int32 {
	src := t.Integers()
	out := make([]int32, len(src))
	if t.DType.Bits() != 8 || len(src) < 256 {
		for i, q := range src {
			out[i] = f(q)
		}
		return out
	}
	var table [256]int32
	for i := range table {
		q := int32(i)
		if t.DType == tensor.Int8 {
			q = int32(int8(i))
		}
		table[i] = f(q)
	}
	for i, q := range src {
		out[i] = table[uint8(q)]
	}
	return out
}

func newTable(p *lower.Program, s *lower.Step, op *lower.Table) Kernel {
	out, entries := output(p, s, 0), op.Codes.Integers()
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		codes := in[0].Integers()
		for i, q := range codes {
			codes[i] = entries[int(q)&(len(entries)-1)]
		}
		return one(tqc.Narrow(out.DType, in[0].Shape, codes))
	}
}

func newQuantize(p *lower.Program, s *lower.Step, op *lower.Quantize) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0].F32()
		if in[0].DType != tensor.Float32 {
			return nil, fmt.Errorf("%s cannot be quantized", in[0].Type())
		}
		codes := make([]int32, len(x))
		for i, v := range x {
			if v != v {
				return nil, &tqc.NaN{Tensor: p.Tensors[s.Inputs[0]].Name}
			}
			codes[i] = op.Quantizer.At(v)
		}
		return one(tqc.Narrow(out.DType, in[0].Shape, codes))
	}
}

func newDequantize(p *lower.Program, s *lower.Step) Kernel {
	from := p.Tensors[s.Inputs[0]].Encoding
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{dequantized(in[0], from)}, nil
	}
}
