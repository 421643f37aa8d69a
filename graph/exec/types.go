package exec

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// number are the Go types that arithmetic is done in.
type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// integer are the integer ones among them.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// badType is the error for an input whose element type an operator does not compute with.
func badType(i int, d tensor.DType) error {
	return fmt.Errorf("input %d: element type %s is not supported", i, d)
}

// ints returns the elements of an int64 or int32 tensor as ints; an error for one that is absent.
func ints(t *tensor.Tensor) ([]int, error) {
	if t == nil {
		return nil, errors.New("an input with integers is missing")
	}
	switch d := t.Data.(type) {
	case []int64:
		return convertSlice[int](d), nil
	case []int32:
		return convertSlice[int](d), nil
	}
	return nil, fmt.Errorf("integers expected, got %s", t.Type())
}

// scalarInt returns the only element of an integer tensor.
func scalarInt(t *tensor.Tensor) (int, error) {
	v, err := ints(t)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("one integer expected, got %s", t.Type())
	}
	return v[0], nil
}

func convertSlice[D, S number | int](src []S) []D {
	out := make([]D, len(src))
	for i, v := range src {
		out[i] = D(v)
	}
	return out
}

// axisIn resolves a possibly negative axis of a tensor of the given rank.
func axisIn(axis, rank int) (int, error) {
	at, ok := graph.Axis(axis, rank)
	if !ok {
		return 0, fmt.Errorf("axis %d is outside of rank %d", axis, rank)
	}
	return at, nil
}

// attrInts returns an integer-list attribute as ints, nil if it is absent.
func attrInts(n *graph.Node, name string) []int {
	return convertInts(n.AttrInts(name))
}

// attrFloats returns a float-list attribute, nil if it is absent.
func attrFloats(n *graph.Node, name string) []float32 {
	if a := n.Attr(name); a != nil {
		return a.Floats
	}
	return nil
}

func convertInts(v []int64) []int {
	if v == nil {
		return nil
	}
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

// blocks splits a row-major shape at an axis: outer blocks of n times inner elements.
func blocks(shape []int, axis int) (outer, n, inner int) {
	return tensor.Count(shape[:axis]), shape[axis], tensor.Count(shape[axis+1:])
}

// rowStrides returns the strides of a row-major tensor of this shape.
func rowStrides(shape []int) []int {
	s := make([]int, len(shape))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = step
		step *= shape[i]
	}
	return s
}
