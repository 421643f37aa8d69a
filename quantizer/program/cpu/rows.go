package cpu

import (
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// kernelRows are the rows of the processor: its kernels for tensors of 8 bits. A row that gives nil leaves the step to the reference, as
// all do with tensors of 16 bits.
var kernelRows = lower.Rows[*engine, kernel]{
	lower.For(newLinear).Of("Conv", "Gemm", "MatMul"),
	lower.For(always(newSum)),
	lower.For(always(func(e *engine, s *lower.Step, op *lower.Product) kernel { return newPair(e, s, op.Product.At) })),
	lower.For(always(newConcat)),
	lower.For(always(func(e *engine, s *lower.Step, op *lower.Requantize) kernel { return newLookup(e, s, op.Rescale.At) })),
	lower.For(always(func(e *engine, s *lower.Step, op *lower.Clamp) kernel {
		return newLookup(e, s, func(q int32) int32 { return min(max(q, op.Lo), op.Hi) })
	})),
	lower.For(always(newTable)),
	lower.For(always(newQuantize)),
	lower.For(always(newDequantize)),
	lower.For(always(newSoftmax)),
	lower.For(always(newMaxPool)),
	lower.For(always(newAverage)),
	lower.For(always(newMove)).But(steps.Looks...),
	lower.For(func(e *engine, _ *lower.Step, op *lower.Island) (kernel, error) { return newIsland(e, op.Graph) }),
	lower.For(func(e *engine, _ *lower.Step, op *lower.RunTime) (kernel, error) { return newIsland(e, op.Graph) }),
	lower.For(always(newSelection)),
}

// always is a constructor that cannot fail.
func always[T lower.Op](f func(e *engine, s *lower.Step, op T) kernel) func(*engine, *lower.Step, T) (kernel, error) {
	return func(e *engine, s *lower.Step, op T) (kernel, error) { return f(e, s, op), nil }
}
