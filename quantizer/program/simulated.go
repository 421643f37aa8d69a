package program

import (
	"context"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// newSimulated is the kernel of a step without an integer form: real numbers of the integers that it reads, the graph in float, and
// the results on their grids. Every backend has this one.
func newSimulated(p *lower.Program, s *lower.Step, op *lower.Simulated, par workers) (Kernel, error) {
	run, err := newGraph(op.Graph, int(par))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		real := make([]*tensor.Tensor, len(in))
		for i, t := range in {
			if e := p.Tensors[s.Inputs[i]].Encoding; e != nil {
				t = dequantized(t, e)
			}
			x, err := faked(t, op.In[i])
			if err != nil {
				return nil, err
			}
			real[i] = x
		}
		out, err := run(ctx, real)
		if err != nil {
			return nil, err
		}
		for k, t := range out {
			if out[k], err = faked(t, op.Out[k]); err != nil {
				return nil, err
			}
			d := output(p, s, k)
			if d.Encoding == nil {
				continue
			}
			grid := d.Encoding.Grid()
			x := t.ToRowMajor()
			codes := make([]int32, x.Len())
			for i, v := range x.F32() {
				if v != v {
					return nil, &tqc.NaN{Tensor: d.Name}
				}
				codes[i] = grid.Quantize(v)
			}
			if out[k], err = tqc.Narrow(d.DType, x.Shape, codes); err != nil {
				return nil, err
			}
		}
		return out, nil
	}, nil
}

// dequantized returns the real numbers of integers.
func dequantized(t *tensor.Tensor, e *lower.Encoding) *tensor.Tensor {
	grid := e.Grid()
	out := tensor.New(tensor.Float32, t.Shape...)
	for i, q := range t.Integers() {
		out.F32()[i] = grid.Dequantize(q)
	}
	return out
}

// faked returns what a format leaves of real numbers; nil leaves all.
func faked(t *tensor.Tensor, f *lower.Fake) (*tensor.Tensor, error) {
	if f == nil {
		return t, nil
	}
	t = t.ToRowMajor()
	out := tensor.New(tensor.Float32, t.Shape...)
	return out, sim.Apply(out, t, &f.Config, &f.Params, sim.Quantize)
}
