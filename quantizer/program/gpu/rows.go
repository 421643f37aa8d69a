package gpu

import "qwb/quantizer/lower"

// choice is a kernel, or why the reference computes the step.
type choice struct {
	kernel kernel
	why    string
}

// rows are what a GPU has kernels for.
var rows = lower.Rows[*engine, choice]{
	lower.For(always(newLinear)),
	lower.For(perhaps(newSum)),
	lower.For(perhaps(newProduct)),
	lower.For(perhaps(newSelection)),
	lower.For(perhaps(newConcat)),
	lower.For(perhaps(func(e *engine, s *lower.Step, op *lower.Requantize) (kernel, string, error) {
		return newRescale(e, s, &op.Rescale, op.Rescale.Y.QMin, op.Rescale.Y.QMax)
	})),
	lower.For(perhaps(func(e *engine, s *lower.Step, op *lower.Clamp) (kernel, string, error) {
		return newRescale(e, s, nil, op.Lo, op.Hi)
	})),
	lower.For(always(newTable)),
	lower.For(perhaps(newQuantize)),
	lower.For(always(func(e *engine, s *lower.Step, _ *lower.Dequantize) kernel {
		return &dequantize{e, e.codeElement(s.Inputs[0]), *e.program.Tensors[s.Inputs[0]].Encoding}
	})),
	lower.For(always(func(e *engine, _ *lower.Step, op *lower.Softmax) kernel { return &softmax{e, op} })),
	lower.For(always(func(e *engine, _ *lower.Step, op *lower.MaxPool) kernel { return &maxPool{e, op} })),
	lower.For(always(func(e *engine, _ *lower.Step, op *lower.Average) kernel { return &average{e, op} })),
	lower.For(perhaps(newMove)),
	lower.For(always(func(e *engine, _ *lower.Step, op *lower.Island) kernel { return &island{e, op} })),
}

// always is a constructor whose kernel takes every step.
func always[T lower.Op](f func(e *engine, s *lower.Step, op T) kernel) func(*engine, *lower.Step, T) (choice, error) {
	return func(e *engine, s *lower.Step, op T) (choice, error) { return choice{kernel: f(e, s, op)}, nil }
}

// perhaps is a constructor that may say why it has none for a step.
func perhaps[T lower.Op](f func(e *engine, s *lower.Step, op T) (kernel, string, error)) func(*engine, *lower.Step, T) (choice, error) {
	return func(e *engine, s *lower.Step, op T) (choice, error) {
		k, why, err := f(e, s, op)
		return choice{k, why}, err
	}
}

// newKernel returns the kernel of a step, or why there is none.
func newKernel(e *engine, s *lower.Step) (kernel, string, error) {
	c, ok, err := rows.Make(e, s)
	if !ok {
		return nil, "no kernel for " + s.Op.Name(), nil
	}
	return c.kernel, c.why, err
}
