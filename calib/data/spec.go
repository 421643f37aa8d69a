package data

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Input is one input that the model has to be fed with.
type Input struct {
	Name  string
	DType tensor.DType
	Shape graph.Shape // nil: unknown rank
}

// String formats the input as name f32[1,3,224,224].
func (in Input) String() string { return in.Name + " " + in.DType.String() + in.Shape.String() }

// InputSpec lists the inputs of a model in its order.
type InputSpec []Input

// SpecOf returns the inputs of g that are no constants.
func SpecOf(g *graph.Graph) InputSpec {
	var spec InputSpec
	for _, id := range g.Inputs {
		if v := g.Value(id); v.Const == nil {
			spec = append(spec, Input{Name: v.Name, DType: v.DType, Shape: v.Shape})
		}
	}
	return spec
}

// Lookup finds an input by name.
func (s InputSpec) Lookup(name string) (Input, bool) {
	for _, in := range s {
		if in.Name == name {
			return in, true
		}
	}
	return Input{}, false
}

// String lists the inputs.
func (s InputSpec) String() string {
	parts := make([]string, len(s))
	for i, in := range s {
		parts[i] = in.String()
	}
	return strings.Join(parts, ", ")
}

// only returns the single input of the model; a source of kind what can feed no other.
func (s InputSpec) only(what string) (Input, error) {
	if len(s) != 1 {
		return Input{}, fmt.Errorf("%s feed models with one input, this one has %d (%s): give npz files with an array for each", what, len(s), s)
	}
	return s[0], nil
}

// matches reports whether an array of this shape may be fed as it is.
func (in Input) matches(shape []int) bool {
	if in.Shape == nil {
		return true
	}
	if len(shape) != len(in.Shape) {
		return false
	}
	for i, d := range in.Shape {
		if d.Known() && d.N != int64(shape[i]) {
			return false
		}
	}
	return true
}

// fixed returns the shape of one sample if only the first dimension is open, which is then 1.
func (in Input) fixed() ([]int, error) {
	if len(in.Shape) > 0 {
		s := append(graph.Shape(nil), in.Shape...)
		if !s[0].Known() {
			s[0] = graph.Dim{N: 1}
		}
		if dims, ok := s.Ints(); ok {
			return dims, nil
		}
	} else if in.Shape != nil {
		return []int{}, nil
	}
	return nil, fmt.Errorf("input %s has open dimensions", in)
}
