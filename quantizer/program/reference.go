package program

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
)

// Reference executes programs by plain loops.
var Reference = Backend{Name: "reference", New: newReference, Own: referenceRows.Own()}

// reference is the engine of the reference backend: one kernel per step, one tensor per value.
type reference struct {
	program *lower.Program
	threads int
	kernels []Kernel // nil of steps whose weights are read when they run
	lastUse []int    // by tensor: the last step that reads it
	odd     sim.Odd
}

// Infinite implements looking.
func (r *reference) Infinite() []string { return r.odd.Names() }

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
	r := &reference{program: p, threads: threads, kernels: make([]Kernel, len(p.Steps)), lastUse: make([]int, len(p.Tensors))}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !Streams(p, s) {
			k, err := NewKernel(p, s, threads)
			if err != nil {
				return nil, StepError(p, s, err)
			}
			r.kernels[i] = k
		}
		for _, id := range s.Inputs {
			r.lastUse[id] = i
		}
	}
	for _, id := range p.Outputs {
		r.lastUse[id] = len(p.Steps)
	}
	return r, nil
}

// preparing is what the reference makes kernels of.
type preparing struct {
	*lower.Program
	par workers
}

// referenceRows are the kernels of the reference: the definition of each operation that does not compute itself.
var referenceRows = lower.Rows[preparing, Kernel]{
	lower.For(func(x preparing, s *lower.Step, op *lower.Linear) (Kernel, error) {
		return newLinear(x.Program, s, op, x.par)
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Sum) (Kernel, error) {
		return pairwise(x.Program, s, op.Sum.At), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Product) (Kernel, error) {
		return pairwise(x.Program, s, op.Product.At), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Select) (Kernel, error) {
		return newSelect(x.Program, s, op), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Concat) (Kernel, error) {
		return newConcat(x.Program, s, op), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Requantize) (Kernel, error) {
		return mapped(x.Program, s, op.Rescale.At), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Clamp) (Kernel, error) {
		return mapped(x.Program, s, func(q int32) int32 { return min(max(q, op.Lo), op.Hi) }), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Table) (Kernel, error) {
		return newTable(x.Program, s, op), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Quantize) (Kernel, error) {
		return newQuantize(x.Program, s, op), nil
	}),
	lower.For(func(x preparing, s *lower.Step, _ *lower.Dequantize) (Kernel, error) {
		return newDequantize(x.Program, s), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Softmax) (Kernel, error) {
		return newSoftmax(x.Program, s, op), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.MaxPool) (Kernel, error) {
		return newMaxPool(x.Program, s, op, x.par), nil
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Average) (Kernel, error) {
		return newAverage(x.Program, s, op, x.par), nil
	}),
	lower.For(func(_ preparing, _ *lower.Step, op *lower.Move) (Kernel, error) { return newGraph(op.Graph, 1) }),
	lower.For(func(x preparing, _ *lower.Step, op *lower.Island) (Kernel, error) {
		return newGraph(op.Graph, int(x.par))
	}),
	lower.For(func(x preparing, _ *lower.Step, op *lower.RunTime) (Kernel, error) {
		return newGraph(op.Graph, int(x.par))
	}),
	lower.For(func(x preparing, s *lower.Step, op *lower.Simulated) (Kernel, error) {
		return newSimulated(x.Program, s, op, x.par)
	}),
}

// NewKernel returns the reference's kernel of a step, with up to threads goroutines: that of its row, or else the operation's own
// definition. Backends take it for what they have no kernel of their own.
func NewKernel(p *lower.Program, s *lower.Step, threads int) (Kernel, error) {
	if k, ok, err := referenceRows.Make(preparing{p, workers(threads)}, s); ok {
		return k, err
	}
	op, ok := s.Op.(lower.Computed)
	if !ok {
		return nil, fmt.Errorf("the reference has no kernel for %s, and it does not say itself what it computes", lower.NameOf(s.Op))
	}
	return func(_ context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return op.Compute(p, s, in) }, nil
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
	s := &r.program.Steps[id]
	if QuantizesInfinite(s, in) {
		r.odd.Add(r.program.Tensors[s.Inputs[0]].Name)
	}
	k := r.kernels[id]
	if k == nil {
		defer Forget(r.program, s)
		var err error
		if k, err = NewKernel(r.program, s, r.threads); err != nil {
			return nil, StepError(r.program, s, err)
		}
	}
	return k.Run(ctx, r.program, s, in)
}
