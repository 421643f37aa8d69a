package tflite

import (
	"encoding/binary"
	"fmt"
	"slices"

	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
)

// sizes computes the shapes of tensors from those of the inputs and constants, as kernels do before a run: what a file says of other
// tensors they do not read. A shape that is not known is nil, and what reads it is not looked at.
type sizes struct {
	*checker
	of [][]int
}

func newSizes(c *checker) *sizes {
	s := &sizes{c, make([][]int, len(c.sub.Tensors))}
	known := func(i int) {
		if t := &c.sub.Tensors[i]; !slices.Contains(t.Signature, -1) && !slices.Contains(t.Shape, -1) && (len(t.Shape) > 0 || t.Data != nil) {
			s.of[i] = t.Shape
		}
	}
	for i := range c.sub.Tensors {
		if c.sub.Tensors[i].Data != nil {
			known(i)
		}
	}
	for _, i := range c.sub.Inputs {
		known(i)
	}
	return s
}

func (s *sizes) all() {
	for i := range s.sub.Operators {
		o := &s.sub.Operators[i]
		f, ok := forms[o.Op]
		if !ok || len(o.Outputs) != 1 || len(o.Inputs) < f.least || len(o.Inputs) > f.most {
			continue
		}
		in := make([][]int, len(o.Inputs))
		open := false
		for k, t := range o.Inputs {
			if t >= 0 {
				in[k] = s.of[t]
			}
			open = open || in[k] == nil && !slices.Contains(f.optional, k)
		}
		if open {
			continue
		}
		y, err := s.output(o, in)
		if err != nil {
			s.report(i, "%v", err)
			continue
		}
		s.of[o.Outputs[0]] = y
	}
}

// output is the shape of what an operator computes; nil: it is not known.
func (s *sizes) output(o *tf.Operator, in [][]int) ([]int, error) {
	switch o.Op {
	case "CONV_2D", "DEPTHWISE_CONV_2D":
		return convolved(o, in)
	case "MAX_POOL_2D", "AVERAGE_POOL_2D":
		if len(in[0]) != 4 {
			return nil, fmt.Errorf("the input is %v", in[0])
		}
		h, w, err := window(o, in[0], o.Options.Int("filter_height"), o.Options.Int("filter_width"))
		return []int{in[0][0], h, w, in[0][3]}, err
	case "FULLY_CONNECTED":
		return connected(o, in)
	case "ADD", "SUB", "MUL":
		return broadcast(in[0], in[1])
	case "CONCATENATION":
		return joined(o.Options.Int("axis"), in)
	case "MEAN":
		return s.averaged(o, in[0])
	case "RESHAPE":
		return s.reshaped(o, in[0])
	case "PAD", "PADV2":
		return s.padded(o, in)
	case "TRANSPOSE_CONV":
		return nil, nil
	}
	return in[0], nil
}

func (s *sizes) padded(o *tf.Operator, in [][]int) ([]int, error) {
	x, pads := in[0], s.constant(o, 1)
	if len(in[1]) != 2 || in[1][0] != len(x) || in[1][1] != 2 {
		return nil, fmt.Errorf("the input is %v, the paddings are %v", x, in[1])
	}
	if len(pads) != 2*len(x) {
		return nil, nil // computed, or of 64 bits
	}
	y := slices.Clone(x)
	for i, n := range pads {
		if n < 0 {
			return nil, fmt.Errorf("a padding of %d", n)
		}
		y[i/2] += n
	}
	return y, nil
}

func convolved(o *tf.Operator, in [][]int) ([]int, error) {
	x, w := in[0], in[1]
	if len(x) != 4 || len(w) != 4 {
		return nil, fmt.Errorf("the input is %v, the weights are %v", x, w)
	}
	channels, fits := w[0], w[3] > 0 && x[3] > 0 && x[3]%w[3] == 0
	if o.Op == "DEPTHWISE_CONV_2D" {
		n := o.Options.Int("depth_multiplier") // kernels that do not take it compute it from the sizes
		channels, fits = w[3], w[0] == 1 && x[3] > 0 && w[3]%x[3] == 0 && !(n > 0 && w[3]%n == 0 && w[3] != x[3]*n)
	}
	if !fits || w[1] <= 0 || w[2] <= 0 {
		return nil, fmt.Errorf("the input is %v, the weights are %v", x, w)
	}
	if len(in) > 2 && in[2] != nil && tensor.Count(in[2]) != channels {
		return nil, fmt.Errorf("%d biases for %d channels", tensor.Count(in[2]), channels)
	}
	h, width, err := window(o, x, w[1], w[2])
	return []int{x[0], h, width, channels}, err
}

// window is how often a window fits into the rows and columns of an input.
func window(o *tf.Operator, x []int, rows, columns int) (h, w int, err error) {
	steps := func(n, k int, axis string) int {
		stride, dilation := o.Options.Int("stride_"+axis), max(o.Options.Int("dilation_"+axis+"_factor"), 1)
		if stride <= 0 {
			return 1 // options says so
		}
		if o.Options.Int("padding") == tf.Valid {
			n -= (k - 1) * dilation
		}
		return (n + stride - 1) / stride
	}
	if h, w = steps(x[1], rows, "h"), steps(x[2], columns, "w"); h <= 0 || w <= 0 {
		return 0, 0, fmt.Errorf("a window of %d x %d does not fit into %v", rows, columns, x)
	}
	return h, w, nil
}

func connected(o *tf.Operator, in [][]int) ([]int, error) {
	x, w := in[0], in[1]
	if len(w) != 2 || w[1] <= 0 || tensor.Count(x)%w[1] != 0 {
		return nil, fmt.Errorf("the input is %v, the weights are %v", x, w)
	}
	if len(in) > 2 && in[2] != nil && tensor.Count(in[2]) != w[0] {
		return nil, fmt.Errorf("%d biases for %d channels", tensor.Count(in[2]), w[0])
	}
	if o.Options.Bool("keep_num_dims") {
		if x[len(x)-1] != w[1] {
			return nil, fmt.Errorf("the input is %v, the weights are %v", x, w)
		}
		return append(slices.Clone(x[:len(x)-1]), w[0]), nil
	}
	return []int{tensor.Count(x) / w[1], w[0]}, nil
}

func broadcast(a, b []int) ([]int, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	y, skip := slices.Clone(a), len(a)-len(b)
	for i, d := range b {
		switch at := &y[skip+i]; {
		case *at == 1:
			*at = d
		case d != 1 && d != *at:
			return nil, fmt.Errorf("%v and %v", a, b)
		}
	}
	return y, nil
}

func joined(axis int, in [][]int) ([]int, error) {
	y := slices.Clone(in[0])
	if axis < 0 {
		axis += len(y)
	}
	if axis < 0 || axis >= len(y) {
		return nil, fmt.Errorf("axis %d of %v", axis, y)
	}
	for _, x := range in[1:] {
		for i, d := range x {
			if len(x) != len(y) || i != axis && d != y[i] {
				return nil, fmt.Errorf("%v and %v along axis %d", in[0], x, axis)
			}
		}
		y[axis] += x[axis]
	}
	return y, nil
}

// constant are the numbers of a constant input of int32; nil: it is none.
func (s *sizes) constant(o *tf.Operator, k int) (list []int) {
	if k >= len(o.Inputs) || o.Inputs[k] < 0 {
		return nil
	}
	t := &s.sub.Tensors[o.Inputs[k]]
	if t.Data == nil || t.Type != tf.Int32 {
		return nil
	}
	list = []int{}
	for i := 0; i+4 <= len(t.Data); i += 4 {
		list = append(list, int(int32(binary.LittleEndian.Uint32(t.Data[i:]))))
	}
	return list
}

func (s *sizes) averaged(o *tf.Operator, x []int) ([]int, error) {
	axes := s.constant(o, 1)
	if axes == nil {
		return nil, nil
	}
	y := slices.Clone(x)
	for _, a := range axes {
		if a < 0 {
			a += len(x)
		}
		if a < 0 || a >= len(x) {
			return nil, fmt.Errorf("axis %d of %v", a, x)
		}
		y[a] = -1
	}
	if !o.Options.Bool("keep_dims") {
		return slices.DeleteFunc(y, func(d int) bool { return d < 0 }), nil
	}
	for i := range y {
		y[i] = max(y[i], 1)
	}
	return y, nil
}

func (s *sizes) reshaped(o *tf.Operator, x []int) ([]int, error) {
	y := s.constant(o, 1)
	if y == nil && len(o.Inputs) < 2 {
		y = o.Options.Ints("new_shape")
	}
	if y == nil {
		return nil, nil
	}
	y = slices.Clone(y)
	rest, at := tensor.Count(x), -1
	for i, d := range y {
		if d < 0 && at < 0 {
			at = i
			continue
		}
		if d <= 0 || rest%d != 0 {
			return nil, fmt.Errorf("%v as %v", x, y)
		}
		rest /= d
	}
	if at >= 0 {
		y[at], rest = rest, 1
	}
	if rest != 1 {
		return nil, fmt.Errorf("%v as %v", x, y)
	}
	return y, nil
}
