package tflite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
)

// TRANSPOSE_CONV slides over two axes, with one group and without dilation. Of other transposed convolutions the weights get zeros: those
// of other groups, and those between the places of a dilated kernel. The integers are the same.

// zeroed returns the weights [in, outputs of a group, ...] of a transposed convolution as those of one group without dilation.
func zeroed(codes *tensor.Tensor, group int, dilation []int) *tensor.Tensor {
	from := codes.ToRowMajor()
	out := tensor.New(from.DType, zeroedShape(from.Shape, group, dilation)...)
	zeroedPlaces(from.Shape, group, dilation, func(k, at int) {
		switch d := out.Data.(type) {
		case []int8:
			d[at] = tensor.Of[int8](from)[k]
		case []float32:
			d[at] = from.F32()[k]
		}
	})
	return out
}

// unzeroed is the opposite of zeroed, for weights of a shape. Weights that are not 0 elsewhere are an error.
func unzeroed(codes []int32, shape []int, group int, dilation []int) ([]int32, error) {
	out, left := make([]int32, tensor.Count(shape)), slices.Clone(codes)
	zeroedPlaces(shape, group, dilation, func(k, at int) { out[k], left[at] = codes[at], 0 })
	if slices.ContainsFunc(left, func(q int32) bool { return q != 0 }) {
		return nil, fmt.Errorf("weights of other groups, or between the places of the kernel, are not 0")
	}
	return out, nil
}

func zeroedShape(shape []int, group int, dilation []int) []int {
	s := slices.Clone(shape)
	s[1] *= group
	for i, d := range dilation {
		s[2+i] = (s[2+i]-1)*d + 1
	}
	return s
}

// zeroedPlaces says for every weight of a shape where it stands in the larger shape.
func zeroedPlaces(shape []int, group int, dilation []int, see func(k, at int)) {
	large := zeroedShape(shape, group, dilation)
	for k := range tensor.Count(shape) {
		index := unravel(k, shape)
		index[1] += index[0] / (shape[0] / group) * shape[1]
		at := 0
		for a, i := range index {
			if a > 1 {
				i *= dilation[a-2]
			}
			at = at*large[a] + i
		}
		see(k, at)
	}
}

// transposed writes TRANSPOSE_CONV. Its padding is that of the convolution from its output to its input: where that is not the graph's, the
// whole reach of the kernel is computed and cut.
func (b *builder) transposed(geo *graph.Geometry, x, y *value, w *weights, lo, hi int32, prefer int) error {
	large := *w
	if large.codes = w.codes; geo.Group > 1 || slices.Max(geo.Dilation) > 1 {
		large.codes = zeroed(w.codes, geo.Group, geo.Dilation)
	}
	s := large.codes.Shape
	flat := func(list []int, first int) []int {
		if len(s) == 3 {
			return two(list, first)
		}
		return list
	}
	kernel, stride, begin := flat(s[2:], 1), flat(geo.Stride, 1), flat(geo.PadBegin, 0)
	in, out := flat(geo.In, 1), flat(geo.Out, 1)
	padding, ok, _ := pads(out, in, kernel, stride, []int{1, 1}, begin, tf.Same)
	reach := out
	if !ok {
		padding, reach = tf.Valid, make([]int, 2)
		for i := range reach {
			whole := (in[i]-1)*stride[i] + kernel[i]
			if begin[i] < 0 || begin[i]+out[i] >= whole+stride[i] {
				return fmt.Errorf("output padding of %d elements behind the last has no form in TRANSPOSE_CONV", begin[i]+out[i]-whole)
			}
			reach[i] = max(whole, begin[i]+out[i])
		}
	}
	whole := []int{y.shape[0], reach[0], reach[1], y.shape[1]}
	perm := append(identity(len(s))[1:], 0)
	shape := []int{s[1], kernel[0], kernel[1], s[0]}
	ids := []int{b.list("output_shape", whole), b.weight(&large, perm, shape, 0), b.plane(x), b.biasOf(w, x)}
	b.limited(y, last(len(s)), lo, hi, prefer, false, func(to, _ int) {
		result := to
		if !ok {
			result = b.temporary(y, "whole", whole, y.enc)
		} else if len(s) == 3 {
			result = b.temporary(y, "plane", whole, y.enc)
		}
		b.op("TRANSPOSE_CONV", ids, []int{result}, "padding", padding, "stride_h", stride[0], "stride_w", stride[1])
		if !ok {
			cut := to
			if len(s) == 3 {
				cut = b.temporary(y, "plane", []int{y.shape[0], out[0], out[1], y.shape[1]}, y.enc)
			}
			end := []int{y.shape[0], begin[0] + out[0], begin[1] + out[1], y.shape[1]}
			b.slice(result, cut, []int{0, begin[0], begin[1], 0}, end, []int{1, 1, 1, 1})
			result = cut
		}
		if result != to {
			b.reshape(result, to)
		}
	})
	return nil
}

// plane is the tensor of a value that windows read: with one spatial axis that is the second of two.
func (b *builder) plane(x *value) int {
	i := b.read(x, last(len(x.shape)))
	if len(x.shape) != 3 {
		return i
	}
	p := b.temporary(x, "plane", []int{x.shape[0], 1, x.shape[2], x.shape[1]}, x.enc)
	b.reshape(i, p)
	return p
}

// turned is a value with its axes in another order: the elements stay where they are.
func (b *builder) turned(x *value, perm []int) *value {
	out := &value{name: x.name + "/turned", typ: x.typ, enc: x.enc, shape: permuted(x.shape, perm), at: map[string]int{}}
	b.relabelled(x, perm, out)
	return out
}
