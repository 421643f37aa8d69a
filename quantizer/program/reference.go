package program

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Reference executes programs by plain loops.
var Reference = Backend{Name: "reference", New: newReference}

// reference is the engine of the reference backend: one kernel per step, one tensor per value.
type reference struct {
	program *lower.Program
	kernels []Kernel
	lastUse []int // by tensor: the last step that reads it
}

// Kernel computes one step of inputs of the types that the program declares, row-major: it returns the tensors of the step's outputs,
// in order, which are new. Several goroutines may call it at once.
type Kernel func(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error)

// Run computes step s of p, for which the kernel is. It checks the types of the outputs; errors name the step.
func (k Kernel) Run(ctx context.Context, p *lower.Program, s *lower.Step, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	err := graph.Try(func() (err error) {
		out, err = k(ctx, in)
		return err
	})
	if err != nil {
		return nil, StepError(p, s, err)
	}
	for k, t := range out {
		if id := s.Outputs[k]; id != lower.NoTensor && t.DType != p.Tensors[id].DType {
			return nil, StepError(p, s, fmt.Errorf("output %d is %s", k, t.Type()))
		}
	}
	return out, nil
}

func newReference(p *lower.Program, threads int) (Engine, error) {
	r := &reference{program: p, kernels: make([]Kernel, len(p.Steps)), lastUse: make([]int, len(p.Tensors))}
	for i := range p.Steps {
		s := &p.Steps[i]
		k, err := NewKernel(p, s, threads)
		if err != nil {
			return nil, StepError(p, s, err)
		}
		r.kernels[i] = k
		for _, id := range s.Inputs {
			r.lastUse[id] = i
		}
	}
	for _, id := range p.Outputs {
		r.lastUse[id] = len(p.Steps)
	}
	return r, nil
}

// NewKernel returns the reference's kernel of a step, with up to threads goroutines: one case for each type of operation that
// does not compute itself. Backends take it for what they have no kernel of their own.
func NewKernel(p *lower.Program, s *lower.Step, threads int) (Kernel, error) {
	par := workers(threads)
	switch op := s.Op.(type) {
	case *lower.Linear:
		return newLinear(p, s, op, par)
	case *lower.Sum:
		return pairwise(p, s, op.Sum.At), nil
	case *lower.Product:
		return pairwise(p, s, op.Product.At), nil
	case *lower.Select:
		return newSelect(p, s, op), nil
	case *lower.Concat:
		return newConcat(p, s, op), nil
	case *lower.Requantize:
		return mapped(p, s, op.Rescale.At), nil
	case *lower.Clamp:
		return mapped(p, s, func(q int32) int32 { return min(max(q, op.Lo), op.Hi) }), nil
	case *lower.Table:
		return newTable(p, s, op), nil
	case *lower.Quantize:
		return newQuantize(p, s, op), nil
	case *lower.Dequantize:
		return newDequantize(p, s), nil
	case *lower.Softmax:
		return newSoftmax(p, s, op), nil
	case *lower.MaxPool:
		return newMaxPool(p, s, op, par), nil
	case *lower.Average:
		return newAverage(p, s, op, par), nil
	case *lower.Move:
		return newGraph(op.Graph, 1)
	case *lower.Island:
		return newGraph(op.Graph, int(par))
	case *lower.Simulated:
		return newSimulated(p, s, op, par)
	}
	if op, ok := s.Op.(lower.Computed); ok {
		return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return op.Compute(p, s, in) }, nil
	}
	return nil, fmt.Errorf("the reference has no kernel for %T", s.Op)
}

// Run implements Engine.
func (r *reference) Run(ctx context.Context, feeds []*tensor.Tensor, hook Hook) ([]*tensor.Tensor, error) {
	p := r.program
	values := make([]*tensor.Tensor, len(p.Tensors))
	for i := range p.Tensors {
		values[i] = p.Tensors[i].Const
	}
	for i, id := range p.Inputs {
		values[id] = feeds[i]
	}
	var in []*tensor.Tensor
	for i := range p.Steps {
		s := &p.Steps[i]
		in = in[:0]
		for _, id := range s.Inputs {
			in = append(in, values[id])
		}
		out, err := r.RunStep(ctx, s.ID, in)
		if err != nil {
			return nil, err
		}
		if hook != nil {
			other, err := hook(s, in, out)
			if err != nil {
				return nil, StepError(p, s, err)
			}
			if other != nil {
				out = other
			}
		}
		for k, id := range s.Outputs {
			if id != lower.NoTensor {
				values[id] = out[k]
			}
		}
		for _, id := range s.Inputs {
			if r.lastUse[id] == i && p.Tensors[id].Const == nil {
				values[id] = nil
			}
		}
	}
	outs := make([]*tensor.Tensor, len(p.Outputs))
	for i, id := range p.Outputs {
		if values[id] == nil {
			return nil, fmt.Errorf("run: output %q was not computed", p.Tensors[id].Name)
		}
		outs[i] = values[id].Clone()
	}
	return outs, nil
}

// RunStep implements Engine.
func (r *reference) RunStep(ctx context.Context, id lower.StepID, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return r.kernels[id].Run(ctx, r.program, &r.program.Steps[id], in)
}
