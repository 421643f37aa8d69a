package lift

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
)

// window is a kernel over an image: sizes of height and width.
type window struct{ kernel, stride, dilation [2]int }

// window reads strides and dilations of the operator's options.
func (l *lifter) window(kernel [2]int) (window, error) {
	o := l.op.Options
	w := window{kernel: kernel, stride: [2]int{o.Int("stride_h"), o.Int("stride_w")},
		dilation: [2]int{max(o.Int("dilation_h_factor"), 1), max(o.Int("dilation_w_factor"), 1)}}
	for i := range 2 {
		if w.stride[i] < 1 || w.kernel[i] < 1 {
			return w, fmt.Errorf("kernel %v with stride %v", w.kernel, w.stride)
		}
	}
	return w, nil
}

// pads are what is added in front of height and width, and behind: for SAME, as much as the output needs, the odd one behind.
func (w window) pads(o tflite.Options, in, out []int) []int64 {
	p := make([]int64, 4)
	if o.Int("padding") == tflite.Valid {
		return p
	}
	for i := range 2 {
		total := max((out[1+i]-1)*w.stride[i]+(w.kernel[i]-1)*w.dilation[i]+1-in[1+i], 0)
		p[i], p[2+i] = int64(total/2), int64(total-total/2)
	}
	return p
}

func pair(name string, x [2]int) graph.Attr { return graph.Ints(name, int64(x[0]), int64(x[1])) }

// fourAxes requires images as data and result.
func (l *lifter) fourAxes(ids ...int) error {
	for _, id := range ids {
		if id < 0 || len(l.shape(id)) != 4 {
			return errNoForm
		}
	}
	return nil
}

// weight adds the weights of the operator, brought into ONNX's order, in which their scales stand along axis. Weights that are computed
// have no form here.
func (l *lifter) weight(id, axis int, turn func(c *tensor.Tensor) *tensor.Tensor) (graph.ValueID, error) {
	t := &l.s.Tensors[id]
	if t.Data == nil {
		return graph.NoValue, errNoForm
	}
	c, err := l.value(t)
	if err != nil {
		return graph.NoValue, err
	}
	return l.dequantized(t, turn(c), axis)
}

// bias adds the bias of the operator, NoValue where it has none.
func (l *lifter) bias(i int) (graph.ValueID, error) {
	id := l.in(i)
	if id < 0 {
		return graph.NoValue, nil
	}
	t := &l.s.Tensors[id]
	if t.Data == nil {
		return l.read(id, plain)
	}
	c, err := l.value(t)
	if err != nil {
		return graph.NoValue, err
	}
	if t.Quantization.Quantized() && t.Type == tflite.Int64 {
		short := *t
		if c, err = narrow(t.Name, c); err != nil {
			return graph.NoValue, err
		}
		short.Type = tflite.Int32
		return l.dequantized(&short, c, 0)
	}
	return l.dequantized(t, c, 0)
}

func (l *lifter) conv() error {
	x, w := l.in(0), l.in(1)
	if err := l.fourAxes(x, w, l.op.Outputs[0]); err != nil {
		return err
	}
	k := l.shape(w) // [output, height, width, input of a group]
	if k[3] == 0 || l.shape(x)[3]%k[3] != 0 {
		return fmt.Errorf("%d channels for a filter of %d", l.shape(x)[3], k[3])
	}
	return l.convolution("Conv", x, w, 2, [2]int{k[1], k[2]}, l.shape(x)[3]/k[3], 0, func(c *tensor.Tensor) *tensor.Tensor {
		return lastFirst(c, 1, k[0], k[3], k[1], k[2])
	})
}

func (l *lifter) depthwise() error {
	x, w := l.in(0), l.in(1)
	if err := l.fourAxes(x, w, l.op.Outputs[0]); err != nil {
		return err
	}
	k := l.shape(w) // [1, height, width, channels * multiplier]
	if c := l.shape(x)[3]; c == 0 || k[3]%c != 0 || k[0] != 1 {
		return fmt.Errorf("a filter %v for %d channels", k, c)
	}
	return l.convolution("Conv", x, w, 2, [2]int{k[1], k[2]}, l.shape(x)[3], 0, func(c *tensor.Tensor) *tensor.Tensor {
		return lastFirst(c, 0, k[3], 1, k[1], k[2])
	})
}

// convolution adds a Conv over groups of channels.
func (l *lifter) convolution(op string, x, w, bias int, kernel [2]int, groups, axis int, turn func(*tensor.Tensor) *tensor.Tensor) error {
	win, err := l.window(kernel)
	if err != nil {
		return err
	}
	attrs := []graph.Attr{pair("kernel_shape", kernel), pair("strides", win.stride), pair("dilations", win.dilation),
		graph.Ints("pads", win.pads(l.op.Options, l.shape(x), l.shape(l.op.Outputs[0]))...), graph.Int("group", int64(groups))}
	return l.linear(op, x, w, bias, axis, turn, l.imageCodes(x, w, attrs...))
}

// linear adds an operator on an image, weights and perhaps a bias.
func (l *lifter) linear(op string, x, w, bias, axis int, turn func(*tensor.Tensor) *tensor.Tensor, attrs []graph.Attr) error {
	weight, err := l.weight(w, axis, turn)
	if err != nil {
		return err
	}
	data, err := l.read(x, first)
	if err != nil {
		return err
	}
	b, err := l.bias(bias)
	if err != nil {
		return err
	}
	return l.result(0, first, op, attrs, data, weight, b)
}

// transposeConv lifts TRANSPOSE_CONV (output shape, weights, data, bias): what SAME takes away of the full result is the pads of a Conv
// from output to input.
func (l *lifter) transposeConv() error {
	x, w, out := l.in(2), l.in(1), l.op.Outputs[0]
	if err := l.fourAxes(x, w, out); err != nil {
		return err
	}
	k := l.shape(w) // [output, height, width, input]
	win, err := l.window([2]int{k[1], k[2]})
	if err != nil {
		return err
	}
	in, to := l.shape(x), l.shape(out)
	p := win.pads(l.op.Options, to, in)
	extra := [2]int{}
	for i := range 2 { // rows of the result that no product reaches
		extra[i] = to[1+i] - ((in[1+i]-1)*win.stride[i] + win.kernel[i] - int(p[i]+p[2+i]))
		if extra[i] < 0 || extra[i] >= win.stride[i] && extra[i] > 0 {
			return errNoForm
		}
	}
	attrs := []graph.Attr{pair("kernel_shape", win.kernel), pair("strides", win.stride), graph.Ints("pads", p...),
		pair("output_padding", extra)}
	return l.linear("ConvTranspose", x, w, 3, 1, func(c *tensor.Tensor) *tensor.Tensor { return lastFirst(c, 0, k[3], k[0], k[1], k[2]) },
		attrs)
}

func (l *lifter) pool() error {
	x, out := l.in(0), l.op.Outputs[0]
	if err := l.fourAxes(x, out); err != nil {
		return err
	}
	win, err := l.window([2]int{l.op.Options.Int("filter_height"), l.op.Options.Int("filter_width")})
	if err != nil {
		return err
	}
	v, err := l.read(x, first)
	if err != nil {
		return err
	}
	op := "AveragePool"
	if l.op.Op == "MAX_POOL_2D" {
		op = "MaxPool"
	}
	// Like ONNX's, TensorFlow Lite's average counts what lies in the image alone.
	return l.result(0, first, op, []graph.Attr{pair("kernel_shape", win.kernel), pair("strides", win.stride),
		graph.Ints("pads", win.pads(l.op.Options, l.shape(x), l.shape(out))...)}, v)
}

func (l *lifter) resize() error {
	x, out := l.in(0), l.op.Outputs[0]
	if err := l.fourAxes(x, out); err != nil {
		return err
	}
	v, err := l.read(x, first)
	if err != nil {
		return err
	}
	corners, half := l.op.Options.Bool("align_corners"), l.op.Options.Bool("half_pixel_centers")
	where := "asymmetric"
	switch {
	case half:
		where = "half_pixel"
	case corners:
		where = "align_corners"
	}
	attrs := []graph.Attr{graph.Str("coordinate_transformation_mode", where), graph.Str("mode", "linear")}
	if l.op.Op == "RESIZE_NEAREST_NEIGHBOR" {
		// floor(scale*(i+1/2)) is the nearest to scale*(i+1/2)-1/2, of two the upper; without half pixels the kernel takes the floor.
		near := "floor"
		if half || corners {
			near = "round_prefer_ceil"
		}
		attrs = []graph.Attr{graph.Str("coordinate_transformation_mode", where), graph.Str("mode", "nearest"), graph.Str("nearest_mode", near)}
	}
	t := &l.s.Tensors[out]
	return l.result(0, first, "Resize", attrs, v, graph.NoValue, graph.NoValue, l.list("sizes", graph.Int64s(turned(t.Shape))))
}

// blocks lifts DEPTH_TO_SPACE and SPACE_TO_DEPTH, whose channels have the order of ONNX's.
func (l *lifter) blocks() error {
	if err := l.fourAxes(l.in(0), l.op.Outputs[0]); err != nil {
		return err
	}
	v, err := l.read(l.in(0), first)
	if err != nil {
		return err
	}
	op := "DepthToSpace"
	if l.op.Op == "SPACE_TO_DEPTH" {
		op = "SpaceToDepth"
	}
	return l.result(0, first, op, []graph.Attr{graph.Int("blocksize", int64(l.op.Options.Int("block_size")))}, v)
}

// fullyConnected lifts FULLY_CONNECTED: rows of as many numbers as the weights have.
func (l *lifter) fullyConnected() error {
	x, w, out := l.in(0), l.in(1), l.op.Outputs[0]
	if x < 0 || w < 0 || len(l.shape(w)) != 2 || l.op.Options.Int("weights_format") != 0 {
		return errNoForm
	}
	t, n := &l.s.Tensors[out], l.shape(w)
	count, err := l.s.Tensors[x].Elements()
	if err != nil || n[1] == 0 || count%n[1] != 0 {
		return fmt.Errorf("%d numbers for rows of %d", count, n[1])
	}
	flat := []int{count / n[1], n[1]}
	var data graph.ValueID
	if s := l.shape(x); len(s) == 2 && s[1] == n[1] {
		data, err = l.read(x, plain)
	} else {
		data, err = l.reshaped(x, l.s.Tensors[x].Name+"_rows", flat)
	}
	if err != nil {
		return err
	}
	var weight graph.ValueID
	if l.s.Tensors[w].Data != nil {
		weight, err = l.weight(w, 0, func(c *tensor.Tensor) *tensor.Tensor { return c })
	} else {
		weight, err = l.read(w, plain)
	}
	if err != nil {
		return err
	}
	b, err := l.bias(2)
	if err != nil {
		return err
	}
	attrs := l.rowCodes(x, w, graph.Int("transB", 1))
	if len(t.Shape) == 2 {
		return l.result(0, plain, "Gemm", attrs, data, weight, b)
	}
	// The result has other axes than rows and columns: the activation and the pair stand on the product already.
	rows := *t
	rows.Shape, rows.Name = []int{flat[0], n[0]}, t.Name+"_rows"
	id := len(l.s.Tensors)
	l.s.Tensors, l.states = append(l.s.Tensors, rows), append(l.states, state{graph.NoValue, graph.NoValue})
	op := *l.op
	op.Outputs = []int{id}
	own := l.op
	l.op = &op
	err = l.result(0, plain, "Gemm", attrs, data, weight, b)
	l.op = own
	if err != nil {
		return err
	}
	v, err := l.node("Reshape", t.Name, l.dtype(t), t.Shape, asGiven(t.Shape), l.states[id].plain, l.list("shape", graph.Int64s(t.Shape)))
	if err != nil {
		return err
	}
	return l.define(out, plain, v)
}

func (l *lifter) batchMatMul() error {
	var in [2]graph.ValueID
	if l.in(1) < 0 {
		return errNoForm
	}
	for i, adjoint := range []bool{l.op.Options.Bool("adj_x"), l.op.Options.Bool("adj_y")} {
		v, err := l.read(l.in(i), plain)
		if err != nil {
			return err
		}
		if adjoint {
			t := l.s.Tensors[l.in(i)]
			rank := len(t.Shape)
			if rank < 2 || t.Quantization.Quantized() && len(t.Quantization.Scale) > 1 {
				return errNoForm
			}
			perm := make([]int64, rank)
			shape := make([]int, rank)
			for a := range perm {
				perm[a] = int64(a)
			}
			perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
			for a := range shape {
				shape[a] = t.Shape[perm[a]]
			}
			if v, err = l.node("Transpose", t.Name+"_turned", l.dtype(&t), shape, []graph.Attr{graph.Ints("perm", perm...)}, v); err != nil {
				return err
			}
			t.Shape = shape
			if v, err = l.quantized(v, &t, plain); err != nil {
				return err
			}
		}
		in[i] = v
	}
	return l.result(0, plain, "MatMul", l.rowCodes(l.in(0), l.in(1)), in[0], in[1])
}
