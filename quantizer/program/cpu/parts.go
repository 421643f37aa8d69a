package cpu

import (
	"context"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// A batch of large samples does not fit into the second-level cache. Where no hook looks at values and every step treats samples
// apart, a batch is therefore run in equal parts, one after the other; one without a divisor that fits is run whole.
// The integers are the same.

// stepBytes is what the largest step of a batch may read and write for the batch to stay whole.
const stepBytes = 1 << 19

// parts says how a batch is cut.
type parts struct {
	samples int // that a thread runs at a time, 0 if all
	largest int // bytes that the largest step reads and writes for a sample
}

// partsOfBatch lets a thread run so many samples at a time that their steps read no more weights than half of what else they read and
// write. Axes other than the first that are open count as 1.
func partsOfBatch(p *lower.Program) (x parts) {
	if !exec.SamplesApart(p.Graph) {
		return parts{}
	}
	weights, values := 0, 0 // bytes
	for i := range p.Steps {
		s := &p.Steps[i]
		switch op := s.Op.(type) {
		case *lower.Simulated, *lower.RunTime: // its ranges may be those of the whole batch
			return parts{}
		case *lower.Linear:
			if op.Weights != nil {
				weights += op.Weights.Codes.Len()
			}
		}
		own := 0
		for _, ids := range [][]lower.TensorID{s.Inputs, s.Outputs} {
			for _, id := range ids {
				if id != lower.NoTensor && p.Tensors[id].Const == nil {
					own += bytesOf(&p.Tensors[id])
				}
			}
		}
		values, x.largest = values+own, max(x.largest, own)
	}
	x.samples = max(1, (2*weights+values-1)/max(values, 1))
	return x
}

// bytesOf is the size of a tensor of one sample.
func bytesOf(t *lower.Tensor) int {
	n := 4
	if t.Quantized() {
		n = 1
	}
	return n * int(t.Shape.ElementsAtLeast())
}

// divide returns into how many equal parts a batch is cut.
func (e *engine) divide(feeds []*tensor.Tensor, hook program.Hook) int {
	if e.parts.samples == 0 || hook != nil {
		return 1
	}
	samples := 0
	for _, t := range feeds {
		if t.DType != tensor.Float32 || len(t.Shape) == 0 || samples > 0 && t.Shape[0] != samples {
			return 1
		}
		samples = t.Shape[0]
	}
	if samples*e.parts.largest <= stepBytes {
		return 1
	}
	for n := samples / (e.threads * e.parts.samples); n > 1; n-- {
		if samples%n == 0 {
			return n
		}
	}
	return 1
}

// runParts runs a batch in n equal parts.
func (e *engine) runParts(ctx context.Context, feeds []*tensor.Tensor, n int) ([]*tensor.Tensor, error) {
	outs := make([][]*tensor.Tensor, len(e.program.Outputs))
	for k := range n {
		part := make([]*tensor.Tensor, len(feeds))
		for i, t := range feeds {
			size := t.Len() / n
			part[i] = &tensor.Tensor{DType: t.DType, Shape: append([]int{t.Shape[0] / n}, t.Shape[1:]...), Data: t.F32()[k*size:][:size:size]}
		}
		got, err := e.run(ctx, part, nil)
		if err != nil {
			return nil, err
		}
		for i, t := range got {
			outs[i] = append(outs[i], t)
		}
	}
	whole := make([]*tensor.Tensor, len(outs))
	for i, list := range outs {
		var err error
		if whole[i], err = tensor.Join(list); err != nil {
			return nil, err
		}
	}
	return whole, nil
}
