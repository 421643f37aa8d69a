package data

import (
	"fmt"
	"slices"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// fitSteps says how an array feeds an input of a network with states, step by step. In these forms, of which the first that fits counts, T
// is the number of steps and N that of sequences, for an input [1,...] or of any batch:
//
//	[T,1,...]  [N,T,1,...]   the input's own shape behind the steps
//	[T,...]                  as samples are read otherwise
//	[N,T,...]
//	[N,..,T*K,..]            one axis of K is longer: it is cut into steps
//
// An input without a batch has the forms [T,...] and [N,T,...] of its own shape. One row is the same at every step.
func (in Input) fitSteps(h npy.Header) (arrayFit, error) {
	shape, want := h.Shape, in.Shape
	batch := len(want) > 0 && (!want[0].Known() || want[0].N == 1)
	more := len(shape) - len(want)
	whole := func(s []int) bool { return in.matches(s) && !(batch && s[0] != 1) }
	switch {
	case want == nil:
		return arrayFit{}, fmt.Errorf("input %s has no shape: it is not known what a step is", in)
	case slices.Contains(shape, 0):
		return arrayFit{}, fmt.Errorf("%s holds no steps", tensor.TypeString(h.DType, shape))
	case more == 1 && whole(shape[1:]):
		return arrayFit{rows: shape[0], shape: shape[1:], sequences: 1}, nil
	case more == 2 && whole(shape[2:]):
		return arrayFit{rows: shape[0] * shape[1], shape: shape[2:], sequences: shape[0]}, nil
	}
	f, err := in.fit(h)
	if f.sequences = 1; err == nil {
		return f, nil
	}
	if step := append([]int{1}, shape[min(2, len(shape)):]...); batch && more == 1 && in.matches(step) {
		return arrayFit{rows: shape[0] * shape[1], shape: step, sequences: shape[0]}, nil
	}
	if axis := in.longer(shape); axis > 0 {
		step, n := slices.Clone(shape), 1
		if step[axis] = int(want[axis].N); batch {
			step[0], n = 1, shape[0]
		}
		return arrayFit{rows: n * (shape[axis] / step[axis]), shape: step, sequences: n, axis: axis}, nil
	}
	return arrayFit{}, fmt.Errorf("%w, nor a sequence of it", err)
}

// longer is the one axis behind the first where an array is a multiple of the input's size, 0 if there is none or another does not fit.
func (in Input) longer(shape []int) (axis int) {
	if len(shape) != len(in.Shape) {
		return 0
	}
	for i, d := range in.Shape {
		n := int64(shape[i])
		switch {
		case !d.Known() || d.N == n:
		case i == 0 && d.N == 1:
		case i == 0 || axis > 0 || d.N == 0 || n%d.N != 0:
			return 0
		default:
			axis = i
		}
	}
	return axis
}

// cut copies step i of those that lie beside each other.
func (f arrayFit) cut(t *tensor.Tensor, i int) (*tensor.Tensor, error) {
	steps := f.rows / f.sequences
	one := slices.Clone(t.Shape)
	one[0] /= f.sequences
	t = slice(t, i/steps, f.sequences, one)
	outer, _, _ := t.Blocks(f.axis)
	parts := make([]*tensor.Tensor, outer)
	for o := range outer {
		parts[o] = slice(t, o*steps+i%steps, outer*steps, []int{1, tensor.Count(f.shape) / outer})
	}
	out, err := tensor.Join(parts)
	if err == nil {
		out.Shape = f.shape
	}
	return out, err
}

// sequence implements sequenced.
func (s *arraySource) sequence(i int) int {
	f, row := s.find(i)
	file := s.files[f]
	return s.files[f].start + row/(file.rows/max(file.sequences, 1))
}

// initial implements sequenced: the arrays in the file that have a state's name and shape, or its shape for each sequence of the file.
func (s *arraySource) initial(i int, states InputSpec) (map[string]*tensor.Tensor, error) {
	f, row := s.find(i)
	file := s.files[f]
	if len(file.states) == 0 {
		return nil, nil
	}
	arrays, err := s.readCached(f)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{}
	for _, in := range states {
		t := arrays[in.Name]
		if t == nil {
			continue
		}
		n, steps := max(file.sequences, 1), file.rows/max(file.sequences, 1)
		switch h := (npy.Header{DType: t.DType, Shape: t.Shape}); {
		case in.matches(t.Shape):
		case len(t.Shape) == len(in.Shape)+1 && t.Shape[0] == n && in.matches(t.Shape[1:]):
			t = slice(t, row/steps, n, t.Shape[1:])
		default:
			return nil, fmt.Errorf("%s does not fit state %s: it takes what a sequence begins with", tensor.TypeString(h.DType, h.Shape), in)
		}
		if given[in.Name], err = Convert(t, in.DType); err != nil {
			return nil, fmt.Errorf("state %s: %w", in, err)
		}
	}
	return given, refuseNaN(given)
}
