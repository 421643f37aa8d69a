package program

import (
	"context"
	"encoding/binary"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
)

// cudaMove moves codes: where every element comes from is found as cpuMove does, but in the order of memory, so that no layout has to
// be changed before or behind it.
type cudaMove struct {
	e    *cudaEngine
	op   *lower.Move
	fill int32 // what is -1 among the numbers
}

func newCUDAMove(e *cudaEngine, s *lower.Step, op *lower.Move) (cudaKernel, string, error) {
	in := &e.program.Tensors[s.Inputs[0]]
	switch {
	case slices.Contains(looks, op.Name()):
		return nil, "the result depends on the codes, not on their places alone", nil
	case !in.Quantized():
		return nil, "it moves " + in.DType.String(), nil
	}
	return &cudaMove{e: e, op: op, fill: in.Encoding.ZeroPoint}, "", nil
}

func (c *cudaMove) prepare(s *cudaStep, in []*cudaValue) (*cudaPrepared, error) {
	x := in[0]
	var others []*tensor.Tensor
	for _, v := range in[1:] {
		if !v.fixed {
			return nil, onlyHost("places that are computed from the data")
		}
		others = append(others, v.host)
	}
	outs, err := moveNumbers(context.Background(), c.op, memoryNumbers(x), others)
	if err != nil {
		return nil, onlyHost("the reference says what is wrong: " + err.Error())
	}
	p := &cudaPrepared{in: make([]cudaLayout, len(in)), out: make([]*cudaOutput, len(s.Outputs))}
	p.in[0] = anyLayout
	var moves []move
	var tables []cuda.Buffer
	for k, t := range outs {
		id := s.Outputs[k]
		if id == lower.NoTensor {
			continue
		}
		from, last := tensor.Of[int32](t), c.e.lasts[id] && movedShape(t.Shape)
		if last {
			other := make([]int32, len(from))
			rearranged(rawBytes(other), rawBytes(from), t.Shape, 4, true)
			from = other
		}
		m := moveOf(k, from, t.Shape, x.len())
		p.out[k] = &cudaOutput{dtype: x.dtype, shape: slices.Clone(t.Shape), last: last, alias: -1}
		if m.same {
			p.out[k].alias = 0
			continue
		}
		if len(from) == 0 {
			return nil, onlyHost("its result has no elements")
		}
		var raw []byte
		for _, f := range m.starts {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(f))
		}
		table, err := c.e.memory.constant(raw)
		p.owned = append(p.owned, table)
		if err != nil {
			return nil, err
		}
		moves, tables = append(moves, m), append(tables, table)
		_ = tables
	}
	if len(moves) > 0 {
		return nil, onlyHost("no kernel")
	}
	return p, nil
}

// memoryNumbers numbers the elements of a value by their places in memory.
func memoryNumbers(x *cudaValue) *tensor.Tensor {
	numbers := tensor.New(tensor.Int32, x.shape...)
	list := tensor.Of[int32](numbers)
	for i := range list {
		list[i] = int32(i)
	}
	if x.last && x.moved() {
		out := tensor.New(tensor.Int32, x.shape...)
		rearranged(rawBytes(tensor.Of[int32](out)), rawBytes(list), x.shape, 4, false)
		return out
	}
	return numbers
}
