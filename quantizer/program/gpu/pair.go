package gpu

import (
	"context"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// pair computes every code from two.
type pair struct {
	e    *engine
	from [2]cuda.Element
	run  pairKernel
}

// pairKernel puts a kernel over pairs of codes on a stream.
type pairKernel func(st *cuda.Stream, dst cuda.Buffer, a, b cuda.Operand, to *cuda.Broadcast) error

func newSum(e *engine, s *lower.Step, op *lower.Sum) (kernel, string, error) {
	sum, err := cuda.SumOf(op.Sum)
	if err != nil {
		return nil, err.Error(), nil
	}
	el := e.codeElement(s.Outputs[0])
	return newPair(e, s, func(st *cuda.Stream, dst cuda.Buffer, a, b cuda.Operand, to *cuda.Broadcast) error {
		return cuda.AddCodes(st, dst, el, a, b, to, sum)
	}), "", nil
}

func newProduct(e *engine, s *lower.Step, op *lower.Product) (kernel, string, error) {
	product, err := cuda.ProductOf(op.Product)
	if err != nil {
		return nil, err.Error(), nil
	}
	el := e.codeElement(s.Outputs[0])
	return newPair(e, s, func(st *cuda.Stream, dst cuda.Buffer, a, b cuda.Operand, to *cuda.Broadcast) error {
		return cuda.MultiplyCodes(st, dst, el, a, b, to, product)
	}), "", nil
}

func newPair(e *engine, s *lower.Step, run pairKernel) *pair {
	return &pair{e: e, from: [2]cuda.Element{e.codeElement(s.Inputs[0]), e.codeElement(s.Inputs[1])}, run: run}
}

func (k *pair) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	shape, last, layouts, to, err := lineUp(in, k.e.lasts[s.Outputs[0]])
	if err != nil {
		return nil, err
	}
	p := k.e.alone(s, shape, last, layouts...)
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		return k.run(st, out[0], cuda.Operand{Codes: in[0], Type: k.from[0]}, cuda.Operand{Codes: in[1], Type: k.from[1]}, to)
	}
	return p, nil
}

// lineUp finds the shape of what operands give element by element, a layout for it, and those that they need for that: channels-last
// where the result is wanted so or an operand lies so.
func lineUp(in []*value, wanted bool) (shape []int, last bool, layouts []layout, to *cuda.Broadcast, err error) {
	shapes := make([][]int, len(in))
	for k, v := range in {
		shapes[k] = v.shape
	}
	if shape, err = tensor.Broadcast(shapes...); err != nil {
		return nil, false, nil, nil, err
	}
	last = wanted
	for k, v := range in {
		last = last || v.last && v.moved()
		shapes[k] = append(slices.Repeat([]int{1}, len(shape)-len(v.shape)), v.shape...)
	}
	last = last && len(shape) > 2
	for k, v := range in {
		last = last && (len(v.shape) == len(shape) || !steps.Moved(shapes[k])) // its elements would have to be moved as what it is not
	}
	for k, v := range in {
		layouts = append(layouts, rowLayout)
		if last && len(v.shape) == len(shape) {
			layouts[k] = lastLayout
		}
		shapes[k] = steps.MemoryShape(shapes[k], last)
	}
	b, err := cuda.NewBroadcast(steps.MemoryShape(shape, last), shapes...)
	if err != nil {
		return nil, false, nil, nil, onlyHost(err.Error())
	}
	return shape, last, layouts, &b, nil
}

// selection takes every code from one of two operands.
type selection struct {
	e       *engine
	op      *lower.Select
	rescale [2]cuda.Rescale
}

func newSelection(e *engine, s *lower.Step, op *lower.Select) (kernel, string, error) {
	if d := e.program.Tensors[s.Inputs[0]].DType; d != tensor.Bool {
		return nil, "a condition of type " + d.String(), nil
	}
	k := &selection{e: e, op: op}
	for i, r := range op.Rescale {
		var err error
		if k.rescale[i], err = cuda.RescaleOf(r); err != nil {
			return nil, err.Error(), nil
		}
	}
	return k, "", nil
}

func (k *selection) prepare(_ context.Context, s *step, in []*value) (*prepared, error) {
	// Operand 2 of the kernel is the condition.
	shape, last, layouts, to, err := lineUp([]*value{in[1], in[2], in[0]}, k.e.lasts[s.Outputs[0]])
	if err != nil {
		return nil, err
	}
	p := k.e.alone(s, shape, last, layouts[2], layouts[0], layouts[1])
	el, a, b := k.e.codeElement(s.Outputs[0]), k.e.codeElement(s.Inputs[1]), k.e.codeElement(s.Inputs[2])
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		x, y := cuda.Operand{Codes: in[1], Type: a}, cuda.Operand{Codes: in[2], Type: b}
		return cuda.SelectCodes(st, out[0], el, in[0], x, y, to, k.rescale, k.op.Lo, k.op.Hi)
	}
	return p, nil
}
