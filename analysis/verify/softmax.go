package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/elementary"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// softmax is Softmax along one axis.
type softmax struct {
	*layer
	got  *lower.Softmax
	x, y qmath.Grid
	axis int
	size int // of the axis, 0 where it is not known
}

func (l *layer) deriveSoftmax(op *lower.Softmax) (operation, error) {
	if err := l.wants("Softmax"); err != nil {
		return nil, err
	}
	x, y, err := l.single()
	if err != nil {
		return nil, err
	}
	s := &softmax{layer: l, got: op, x: x}
	if s.y, err = l.limited(y); err != nil {
		return nil, err
	}
	shape := l.g.Value(l.node.Inputs[0]).Shape
	axis, flat := graph.SoftmaxAxis(l.node, l.g.Opset(""))
	var ok bool
	if s.axis, ok = graph.Axis(axis, len(shape)); !ok {
		return nil, fmt.Errorf("axis %d of %s", axis, shape)
	}
	if flat { // a row is all that follows; the axis is the one that is longer than 1
		for a := s.axis; a < len(shape); a++ {
			if shape[s.axis].N == 1 && shape[a].N != 1 {
				s.axis = a
			}
		}
	}
	if shape[s.axis].Known() {
		s.size = int(shape[s.axis].N)
	}
	return s, nil
}

func (s *softmax) compare(f *faults) {
	number(f, "axis", 0, s.axis, s.got.Axis)
	f.grid("input ", s.x, s.got.X)
	f.grid("", s.y, s.got.Y)
	flag(f, "known size", s.size > 0, s.got.Softmax != nil)
	if s.size == 0 || s.got.Softmax == nil {
		return
	}
	want, err := s.profile.PrepareSoftmax(s.x, s.y, s.size)
	if err != nil {
		f.add("arithmetic", 0, 0, 1)
		return
	}
	got := s.got.Softmax
	number(f, "form", 0, want.Form, got.Form)
	f.grid("input ", want.X, got.X)
	f.grid("", want.Y, got.Y)
	number(f, "row", 0, want.N, got.N)
	numbers(f, "exponential", want.E, got.E)
	number(f, "inverse", 0, want.Inverse, got.Inverse)
	number(f, "rounding", 0, want.Rounding, got.Rounding)
	f.scaling(want.Scaling, got.Scaling)
	f.multiplier("", 0, want.M, got.M)
	number(f, "radius", 0, want.Radius, got.Radius)
	numbers(f, "term", want.Terms, got.Terms)
	number(f, "factor", 0, want.PerOutput, got.PerOutput)
}

func (s *softmax) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	outer, n, inner := in[0].Blocks(s.axis)
	p, err := s.profile.PrepareSoftmax(s.x, s.y, max(n, 1))
	if err != nil {
		return nil, err
	}
	codes := in[0].Integers()
	values := make([]float64, len(codes))
	for o := range outer {
		for i := range inner {
			at := func(k int) int { return (o*n+k)*inner + i }
			top, sum := int32(math.MinInt32), 0.0
			for k := range n {
				top = max(top, codes[at(k)])
			}
			for k := range n {
				values[at(k)] = elementary.Exp(float64(codes[at(k)]-top) * float64(s.x.Scale))
				sum += values[at(k)]
			}
			for k := range n {
				values[at(k)] /= sum
			}
		}
	}
	e := s.steps(values, s.y, p.Deviation()+0x1p-40)
	return []*exact{e}, nil
}
