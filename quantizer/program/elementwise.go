package program

import (
	"context"
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// pairwise is a kernel that computes every code from two.
func pairwise(p *lower.Program, s *lower.Step, f func(a, b int32) int32) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		shape, err := tensor.Broadcast(in[0].Shape, in[1].Shape)
		if err != nil {
			return nil, err
		}
		a, b := in[0].Integers(), in[1].Integers()
		ia, ib := tensor.BroadcastIndex(shape, in[0].Shape), tensor.BroadcastIndex(shape, in[1].Shape)
		codes := make([]int32, len(ia))
		for i := range codes {
			codes[i] = f(a[ia[i]], b[ib[i]])
		}
		return one(tqc.Narrow(out.DType, shape, codes))
	}
}

// rescaled returns the codes of t in the encoding of the output, limited to [lo, hi].
func rescaled(t *tensor.Tensor, r *qmath.Rescale, lo, hi int32) []int32 {
	return mapCodes(t, func(q int32) int32 {
		if r != nil {
			q = r.At(q)
		}
		return min(max(q, lo), hi)
	})
}

func newSelect(p *lower.Program, s *lower.Step, op *lower.Select) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		cond, ok := in[0].Data.([]bool)
		if !ok {
			return nil, fmt.Errorf("condition of type %s", in[0].Type())
		}
		shape, err := tensor.Broadcast(in[0].Shape, in[1].Shape, in[2].Shape)
		if err != nil {
			return nil, err
		}
		a, b := rescaled(in[1], op.Rescale[0], op.Lo, op.Hi), rescaled(in[2], op.Rescale[1], op.Lo, op.Hi)
		ic, ia, ib := tensor.BroadcastIndex(shape, in[0].Shape), tensor.BroadcastIndex(shape, in[1].Shape),
			tensor.BroadcastIndex(shape, in[2].Shape)
		codes := make([]int32, len(ic))
		for i := range codes {
			if cond[ic[i]] {
				codes[i] = a[ia[i]]
			} else {
				codes[i] = b[ib[i]]
			}
		}
		return one(tqc.Narrow(out.DType, shape, codes))
	}
}

func newConcat(p *lower.Program, s *lower.Step, op *lower.Concat) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		shape := append([]int(nil), in[0].Shape...)
		if op.Axis >= len(shape) {
			return nil, fmt.Errorf("axis %d of %s", op.Axis, in[0].Type())
		}
		for _, t := range in[1:] {
			if len(t.Shape) != len(shape) || t.Len()*in[0].Shape[op.Axis] != in[0].Len()*t.Shape[op.Axis] {
				return nil, fmt.Errorf("%s beside %s along axis %d", t.Type(), in[0].Type(), op.Axis)
			}
			shape[op.Axis] += t.Shape[op.Axis]
		}
		outer, _, _ := in[0].Blocks(op.Axis)
		codes := make([]int32, tensor.Count(shape))
		row, at := len(codes)/max(outer, 1), 0
		for i, t := range in {
			part := rescaled(t, op.Rescale[i], op.Lo, op.Hi)
			n := len(part) / max(outer, 1)
			for o := range outer {
				copy(codes[o*row+at:], part[o*n:(o+1)*n])
			}
			at += n
		}
		return one(tqc.Narrow(out.DType, shape, codes))
	}
}

func newSoftmax(p *lower.Program, s *lower.Step, op *lower.Softmax) Kernel {
	out := output(p, s, 0)
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if op.Axis >= len(in[0].Shape) {
			return nil, fmt.Errorf("axis %d of %s", op.Axis, in[0].Type())
		}
		outer, n, inner := in[0].Blocks(op.Axis)
		if outer*n*inner == 0 {
			return one(tqc.Narrow(out.DType, in[0].Shape, nil))
		}
		rows, err := op.For(p.Profile, n)
		if err != nil {
			return nil, err
		}
		codes := in[0].Integers()
		row := make([]int32, n)
		for o := range outer {
			for i := range inner {
				for k := range n {
					row[k] = codes[(o*n+k)*inner+i]
				}
				rows.Row(row, row)
				for k := range n {
					codes[(o*n+k)*inner+i] = row[k]
				}
			}
		}
		return one(tqc.Narrow(out.DType, in[0].Shape, codes))
	}
}
