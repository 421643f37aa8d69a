package graph

import (
	"errors"
	"fmt"

	"qwb/graph/tensor"
)

// MaxElements bounds the elements of one tensor. A larger one is an error wherever shapes are inferred.
const MaxElements = 1 << 40

// InferInput is what is known of one input: the zero value is an absent one.
type InferInput struct {
	Present bool
	DType   tensor.DType
	Shape   Shape
	Tensor  *tensor.Tensor // the elements, row-major, nil while unknown
	ints    []Elem         // elements of an integer tensor of which only some are known
}

// InferOutput is what follows for one output.
type InferOutput struct {
	DType tensor.DType
	Shape Shape
	// Elements that are known already, of a constant or an integer tensor.
	tensor *tensor.Tensor
	ints   []Elem
}

// InferCtx is what OpSpec.Infer sees of a node and where it puts its results.
type InferCtx struct {
	Node  *Node
	Opset int64 // imported version of the node's domain
	in    []InferInput
	out   []InferOutput
	sub   func(body *Graph, in []InferInput) ([]InferOutput, error)
}

// NumIn is the number of inputs, absent ones included; NumOut that of the outputs.
func (c *InferCtx) NumIn() int  { return len(c.in) }
func (c *InferCtx) NumOut() int { return len(c.out) }

// Has reports whether input i is present.
func (c *InferCtx) Has(i int) bool { return i < len(c.in) && c.in[i].Present }

// Shape returns the shape of input i, nil if it is unknown or the input absent.
func (c *InferCtx) Shape(i int) Shape {
	if i >= len(c.in) {
		return nil
	}
	return c.in[i].Shape
}

// DType returns the element type of input i, Undefined if it is unknown or the input absent.
func (c *InferCtx) DType(i int) tensor.DType {
	if i >= len(c.in) {
		return tensor.Undefined
	}
	return c.in[i].DType
}

// Const returns the elements of input i, nil if they are unknown or the input absent.
func (c *InferCtx) Const(i int) *tensor.Tensor {
	if i >= len(c.in) {
		return nil
	}
	return c.in[i].Tensor
}

// Elems returns the elements of integer input i, as far as they are known; false if not even their number is.
func (c *InferCtx) Elems(i int) ([]Elem, bool) {
	if i >= len(c.in) {
		return nil, false
	}
	if in := &c.in[i]; in.Tensor != nil {
		return elemsOf(in.Tensor)
	} else if in.ints != nil {
		return in.ints, true
	}
	if s := c.in[i].Shape; s != nil && c.in[i].DType.IsInteger() {
		n, err := s.Elements()
		if err == nil && n >= 0 && n <= maxPartial {
			return make([]Elem, n), true
		}
	}
	return nil, false
}

// Ints returns the elements of integer input i, false unless all are known.
func (c *InferCtx) Ints(i int) ([]int64, bool) {
	elems, ok := c.Elems(i)
	if !ok {
		return nil, false
	}
	out := make([]int64, len(elems))
	for k, e := range elems {
		if !e.Known {
			return nil, false
		}
		out[k] = e.N
	}
	return out, true
}

// SetOut sets element type and shape of output i; a node without that output is fine.
func (c *InferCtx) SetOut(i int, d tensor.DType, s Shape) {
	if i < len(c.out) {
		c.out[i].DType, c.out[i].Shape = d, s
	}
}

// setInts records the elements of integer output i.
func (c *InferCtx) setInts(i int, elems []Elem) {
	if i < len(c.out) && len(elems) <= maxPartial {
		c.out[i].ints = elems
	}
}

// setTensor records the elements of output i and their type.
func (c *InferCtx) setTensor(i int, t *tensor.Tensor) {
	if i < len(c.out) {
		c.out[i] = InferOutput{DType: t.DType, Shape: Static(t.Shape...), tensor: t}
	}
}

// Out returns the shape set for output i.
func (c *InferCtx) Out(i int) Shape {
	if i >= len(c.out) {
		return nil
	}
	return c.out[i].Shape
}

// InferNode infers the outputs of node n, whose operator s describes, from its inputs alone. opset is the imported version of
// the node's domain. What cannot be inferred stays unknown: the outputs of If, Loop and Scan without their graph, and of
// operators without a rule. Inputs that no execution accepts are an error.
func (s *OpSpec) InferNode(n *Node, opset int64, in []InferInput) ([]InferOutput, error) {
	c := &InferCtx{Node: n, Opset: opset, in: in, out: make([]InferOutput, len(n.Outputs))}
	err := s.infer(c)
	return c.out, err
}

// CountMACs returns the multiply-accumulates of one execution of n, 0 for operators that have none, false if shapes are
// missing. Counts that do not fit are an error.
func (s *OpSpec) CountMACs(n *Node, opset int64, in []InferInput) (macs int64, known bool, err error) {
	if s.MACs == nil {
		return 0, true, nil
	}
	c := &InferCtx{Node: n, Opset: opset, in: in, out: make([]InferOutput, len(n.Outputs))}
	if err := s.infer(c); err != nil {
		return 0, false, err
	}
	dims := s.MACs(c)
	if open, _ := openDims(dims); dims == nil || open {
		return 0, false, nil
	}
	macs, fits := product(dims)
	if !fits {
		return 0, false, errors.New("more than 2^63 multiply-accumulates")
	}
	return macs, true, nil
}

func (s *OpSpec) infer(c *InferCtx) error {
	if c.Opset > 0 && c.Opset < s.Since {
		return fmt.Errorf("opset %d does not have the operator, %d is the first", c.Opset, s.Since)
	}
	for i := range s.MinIn {
		if !c.Has(i) {
			return missingInput(i)
		}
	}
	if s.Infer == nil {
		return nil
	}
	if err := s.Infer(c); err != nil {
		return err
	}
	for i := range c.out {
		if _, err := c.out[i].Shape.Elements(); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}
