package ncnn

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
)

// says is what a layer says of the node that it has the name of, in the words of asked. Layers that stand for a pattern say nothing of one
// node.
func (r *recoverer) says(l *layer, n *graph.Node) []string {
	x, _ := r.fixed.Value(n.Inputs[0]).Shape.Ints()
	switch l.typ {
	case "Swish", "GELU", "ReLU", "LeakyReLU", "Clip", "Sigmoid", "Mish", "HardSwish":
		return l.activation(n.Op)
	case "Convolution", "ConvolutionDepthWise", "Convolution1D", "Deconvolution", "DeconvolutionDepthWise":
		return l.window(min(max(len(x)-2, 1), 2))
	case "Pooling":
		return l.pool(x)
	case "Softmax":
		return words("softmax", "axis", l.integer(0, 0))
	case "Concat":
		return words("concat", "axis", l.integer(0, 0))
	case "Slice":
		return words("slice", "axis", l.integer(1, 0), "sizes", l.integers(0))
	case "Reduction":
		axes := l.integers(3)
		slices.Sort(axes)
		if l.integer(1, 1) != 0 {
			axes = nil // all
			for a := range inner(x) {
				axes = append(axes, a)
			}
		}
		return words("reduction", "op", reductions[l.integer(0, 0)], "axes", axes)
	case "UnaryOp":
		return words("unary", "op", unaries[l.integer(0, 0)])
	case "BinaryOp":
		list := words("binary", "op", binaries[l.integer(0, 0)])
		if l.integer(1, 0) != 0 {
			list = append(list, fmt.Sprint("with=", l.number(2, 0)))
		}
		return list
	case "Interp":
		return words("resize", "to", []int{l.integer(3, 0), l.integer(4, 0)}, "linear", l.integer(0, 0) == 2,
			"align_corners", l.integer(6, 0) != 0)
	case "Reshape":
		return words("reshape", "to", l.size())
	case "Permute":
		return words("order", "axes", l.order(len(inner(x))))
	case "Crop":
		return words("crop", "from", l.integers(9), "to", l.integers(10), "axes", l.integers(11))
	case "BatchNorm", "LayerNorm":
		return words("norm", "epsilon", l.number(1, 0))
	case "Padding":
		return l.pads(len(inner(x)))
	}
	return words(l.typ)
}

// integers is a list of a key.
func (l *layer) integers(key int) []int {
	v, _ := l.get(key)
	list, _ := v.([]int)
	return append([]int{}, list...)
}

// number is the value of a key in float.
func (l *layer) number(key int, def float32) float32 {
	v, _ := l.get(key)
	switch x := v.(type) {
	case float32:
		return x
	case int:
		return float32(x)
	}
	return def
}

// activation is a layer of that kind; nil for a pattern.
func (l *layer) activation(op string) []string {
	switch slope := l.number(0, 0); {
	case l.typ == "ReLU" && slope != 0:
		return words(activationOf(2, []float32{slope}))
	case l.typ == "ReLU":
		return words(activationOf(1, nil))
	case l.typ == "Clip":
		return words(activationOf(3, []float32{l.number(0, 0), l.number(1, 0)}))
	case l.typ == "Sigmoid":
		return words(activationOf(4, nil))
	case l.typ == op && op == "Mish":
		return words(activationOf(5, nil))
	case l.typ == op && op == "HardSwish":
		return words(activationOf(6, []float32{l.number(0, 0.2), l.number(1, 0.5)}))
	}
	return nil
}

// by reads a parameter of each axis that a layer slides over, the height first: keys of the height and of the width. Where that
// of the height is missing it is that of the width.
func (l *layer) by(axes, height, width, def int) []int {
	w := l.integer(width, def)
	return []int{l.integer(height, w), w}[2-axes:]
}

// window is what slides and has weights.
func (l *layer) window(axes int) []string {
	left, top := l.integer(4, 0), l.integer(14, l.integer(4, 0))
	begin, end := []int{top, left}[2-axes:], []int{l.integer(16, top), l.integer(15, left)}[2-axes:]
	more, group := make([]int, axes), 1
	if strings.HasPrefix(l.typ, "Deconvolution") {
		more = l.by(axes, 19, 18, 0)
	}
	if strings.HasSuffix(l.typ, "DepthWise") {
		group = l.integer(7, 1)
	}
	return windowWords(windowed, l.by(axes, 11, 1, 0), l.by(axes, 13, 3, 1), begin, end, l.by(axes, 12, 2, 1), more, group)
}

// pool is a Pooling of something of a size.
func (l *layer) pool(x []int) []string {
	axes := min(max(len(x)-2, 1), 2)
	average := l.integer(0, 0) == 1
	if l.integer(4, 0) != 0 {
		return words("pool", "average", average, "global", true)
	}
	kernel, stride := l.by(axes, 11, 1, 0), l.by(axes, 12, 2, 1)
	left, top := l.integer(3, 0), l.integer(13, l.integer(3, 0))
	begin, end := []int{top, left}[2-axes:], []int{l.integer(15, top), l.integer(14, left)}[2-axes:]
	out := []int{}
	for i := range axes {
		if stride[i] < 1 || len(x) < axes {
			break
		}
		room := x[len(x)-axes+i] + begin[i] + end[i] - kernel[i]
		if l.integer(5, 0) == 0 { // filled up at the end
			room += stride[i] - 1
		}
		out = append(out, room/stride[i]+1)
	}
	return words("pool", "average", average, "global", false, "kernel_shape", kernel, "strides", stride,
		"pads", slices.Concat(begin, end), "output", out,
		"count_include_pad", average && l.integer(6, 0) != 0)
}

// size is that of a Reshape, the outermost axis first.
func (l *layer) size() (list []int) {
	for _, key := range []int{2, 11, 1, 0} {
		if v, ok := l.get(key); ok {
			n, _ := v.(int)
			list = append(list, n)
		}
	}
	return list
}

// order is that of a Permute: the axes of the input by their places in the result.
func (l *layer) order(axes int) []int {
	list := []int{}
	typ := l.integer(0, 0)
	if axes < 1 || axes > 4 || typ < 0 || typ >= len(orders[axes]) {
		return list
	}
	letters := []string{"w", "hw", "chw", "cdhw"}[axes-1]
	for _, c := range slices.Backward([]byte(orders[axes][typ])) {
		list = append(list, strings.IndexByte(letters, c))
	}
	return list
}

// pads is a Padding of so many axes.
func (l *layer) pads(axes int) []string {
	begin, end := make([]int, axes), make([]int, axes)
	for i, keys := range [][2]int{{2, 3}, {0, 1}, {7, 8}} {
		if a := axes - 1 - i; a >= 0 {
			begin[a], end[a] = l.integer(keys[0], 0), l.integer(keys[1], 0)
		}
	}
	mode, names := l.integer(4, 0), []string{"constant", "edge", "reflect"}
	if mode < 0 || mode >= len(names) {
		return words("pad", "mode", mode)
	}
	return words("pad", "begin", begin, "end", end, "mode", names[mode], "value", l.number(5, 0))
}
