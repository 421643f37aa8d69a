package exec

import (
	"fmt"

	"qwb/graph/tensor"
)

// spread says which scale belongs to which element of a tensor: element i uses scale number of(i).
type spread struct {
	axis, block int
	step        []int // strides of the scale tensor along the axes of the data, row-major
	shape       []int
	single      bool
}

// spreadOf matches a scale with data of the given shape: one number, one per index of the axis, or one per block of it.
func spreadOf(shape []int, scale *tensor.Tensor, axis int, block int) (spread, error) {
	s := spread{shape: shape, single: scale.Len() == 1 && len(scale.Shape) <= 1}
	if s.single {
		return s, nil
	}
	a, err := axisIn(axis, len(shape))
	if err != nil {
		return s, err
	}
	s.axis, s.block = a, 1
	s.step = make([]int, len(shape))
	if len(scale.Shape) == 1 {
		if scale.Shape[0] != shape[a] {
			return s, fmt.Errorf("%d scales for axis %d of %d", scale.Shape[0], a, shape[a])
		}
		s.step[a] = 1
		return s, nil
	}
	if len(scale.Shape) != len(shape) {
		return s, fmt.Errorf("scale %s for data of shape %v", scale.Type(), shape)
	}
	if s.block = block; block < 1 {
		if scale.Shape[a] == 0 || shape[a]%scale.Shape[a] != 0 {
			return s, fmt.Errorf("scale %s for data of shape %v without block_size", scale.Type(), shape)
		}
		s.block = shape[a] / scale.Shape[a]
	}
	for i, n := range scale.Shape {
		want := shape[i]
		if i == a {
			want = (shape[i] + s.block - 1) / s.block
		}
		if n != want {
			return s, fmt.Errorf("scale %s for data of shape %v in blocks of %d on axis %d", scale.Type(), shape, s.block, a)
		}
	}
	s.step = rowStrides(scale.Shape)
	return s, nil
}

// each calls f with runs of elements that share a scale: their offset, number and the number of the scale.
func (s spread) each(n int, f func(at, n, scale int)) {
	if s.single {
		f(0, n, 0)
		return
	}
	inner := tensor.Count(s.shape[s.axis+1:])
	if tensor.Count(s.step[s.axis+1:]) != 0 && len(s.step) > s.axis+1 {
		inner = 1 // block quantization: the scale varies along later axes too
	}
	it := newCounter(s.shape, 0)
	for at := 0; at < n; at += inner {
		k := 0
		for a, i := range it.index {
			if a == s.axis {
				i /= s.block
			}
			k += i * s.step[a]
		}
		f(at, inner, k)
		it.advance(inner)
	}
}

// advance moves the counter on by n indices.
func (c *counter) advance(n int) {
	for a := len(c.index) - 1; a >= 0 && n > 0; a-- {
		n += c.index[a]
		c.index[a] = n % c.shape[a]
		n /= c.shape[a]
	}
}
