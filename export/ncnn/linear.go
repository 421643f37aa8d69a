package ncnn

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Operators with weights: convolutions and products.

// conv writes Convolution, ConvolutionDepthWise where there are groups, and Convolution1D.
func (b *builder) conv(id graph.NodeID, n *graph.Node) error {
	w := b.g.Const(n.Inputs[1])
	if w == nil {
		return errors.New("its weights are computed")
	}
	geo, err := graph.ConvGeometry(n, b.g.Value(n.Inputs[0]).Shape, graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	axes := len(geo.Kernel)
	if axes > 2 {
		return fmt.Errorf("it slides over %d axes: the layers written here slide over one or two", axes)
	}
	typ := [...]string{"", "Convolution1D", "Convolution"}[axes]
	if geo.Group > 1 {
		typ = "ConvolutionDepthWise"
	}
	return b.window(typ, id, n, geo, w.Shape[0], w.ToRowMajor().F32())
}

// window writes a layer that slides: weights as ncnn has them, the output channels outermost.
func (b *builder) window(typ string, id graph.NodeID, n *graph.Node, geo *graph.Geometry, outputs int, weights []float32) error {
	d, err := b.sample(n.Inputs[0], len(geo.Kernel)+1)
	if err != nil {
		return err
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	lifted := len(geo.Kernel) == 1 && typ != "Convolution1D" // two axes, the first of size 1
	if lifted {
		in, geo = b.reshaped(b.g.Node(id).Name, in, []int{d[0], 1, d[1]}), twoAxes(geo)
	}
	bias, err := b.bias(n, outputs)
	if err != nil {
		return err
	}
	last := len(geo.Kernel) - 1 // the width
	params := []param{{0, outputs}, {1, geo.Kernel[last]}, {2, geo.Dilation[last]}, {3, geo.Stride[last]}, {4, geo.PadBegin[last]},
		{5, truth(bias != nil)},
		{6, len(weights)}}
	if geo.Group > 1 {
		params = append(params, param{7, geo.Group})
	}
	if last == 1 {
		params = append(params, param{11, geo.Kernel[0]}, param{12, geo.Dilation[0]}, param{13, geo.Stride[0]}, param{14, geo.PadBegin[0]},
			param{16, geo.PadEnd[0]})
	}
	params = append(params, param{15, geo.PadEnd[last]})
	for i, p := range slices.Backward(geo.OutputPadding) {
		if p != 0 || i != last && geo.OutputPadding[last] != 0 { // without a key of its own the height has that of the width
			params = append(params, param{18 + last - i, p})
		}
	}
	l := b.add(typ, id, []string{in}, n.Outputs[0], params...)
	at := len(b.net.layers) - 1
	if err := b.weigh(l, id, n, weights, bias, geo.Group); err != nil || !lifted {
		b.layer[n.Outputs[0]] = at
		return err
	}
	if d, err = b.dims(n.Outputs[0]); err == nil {
		b.reshapedOutput(at, n.Outputs[0], d)
	}
	return err
}

// twoAxes is the geometry of one axis as that of two, of which the first has one element.
func twoAxes(g *graph.Geometry) *graph.Geometry {
	w := *g
	w.Kernel, w.Stride, w.Dilation = []int{1, g.Kernel[0]}, []int{1, g.Stride[0]}, []int{1, g.Dilation[0]}
	w.PadBegin, w.PadEnd = []int{0, g.PadBegin[0]}, []int{0, g.PadEnd[0]}
	w.In, w.Out = append([]int{1}, g.In...), append([]int{1}, g.Out...)
	if len(g.OutputPadding) == 1 {
		w.OutputPadding = []int{0, g.OutputPadding[0]}
	}
	return &w
}

// weigh gives a layer its weights: float, or integers with the scales.
func (b *builder) weigh(l *layer, id graph.NodeID, n *graph.Node, floats, bias []float32, groups int) error {
	if !b.integers(id) {
		l.weights = []weight{{floats: floats, tagged: true}}
		if bias != nil {
			l.weights = append(l.weights, weight{floats: bias})
		}
		return nil
	}
	x, w, codes, err := b.quantized(id)
	if err != nil {
		return err
	}
	outputs := l.integer(0, 0)
	term := 2
	switch {
	case groups == 1:
		w = spread(w, outputs)
	case len(w) == 1: // one scale for all groups
	case groups != outputs:
		return fmt.Errorf("its weights have %d scales for %d groups: ncnn has one for each group, or one for all (weights=int8-sym-tensor)",
			len(w), groups)
	default:
		term = 1
	}
	if n.Gemm().Alpha != 1 {
		w = slices.Clone(w)
		for i := range w {
			w[i] /= n.Gemm().Alpha
		}
	}
	if l.typ == "InnerProduct" && !n.Gemm().TransB {
		codes = transposed(codes, outputs)
	}
	l.scale = x
	l.set(keyInt8, term)
	l.weights = []weight{{codes: codes, tagged: true}}
	if bias != nil {
		l.weights = append(l.weights, weight{floats: bias})
	}
	l.weights = append(l.weights, weight{floats: w}, weight{floats: []float32{x}})
	if winograd(l) && slices.ContainsFunc(codes, func(q int8) bool { return q < -31 || q > 31 }) {
		l.set(keyFeatures, noWinograd)
	}
	return nil
}

// winograd reports whether ncnn computes a layer by Winograd's transformation, whose sums of 16 bits hold weights of 6.
func winograd(l *layer) bool {
	side := func(key, def int) int { return l.integer(key, def) }
	return l.typ == "Convolution" && side(1, 0) == 3 && side(11, side(1, 0)) == 3 && side(2, 1) == 1 && side(12, side(2, 1)) == 1 &&
		side(3, 1) == 1 && side(13, side(3, 1)) == 1
}

// spread is one scale for each channel.
func spread(w []float32, n int) []float32 {
	if len(w) == 1 {
		return slices.Repeat(w, n)
	}
	return w
}

// transposed turns a matrix [in, out] around.
func transposed[T any](a []T, out int) []T {
	in := len(a) / max(out, 1)
	t := make([]T, len(a))
	for i := range in {
		for o := range out {
			t[o*in+i] = a[i*out+o]
		}
	}
	return t
}

// bias is input 2 as one number per channel, nil where there is none.
func (b *builder) bias(n *graph.Node, channels int) ([]float32, error) {
	v := n.Input(graph.BiasInput)
	if v == graph.NoValue {
		return nil, nil
	}
	t := b.g.Const(v)
	if t == nil || t.DType != tensor.Float32 || t.Len() != channels || len(t.Shape) == 0 || t.Shape[len(t.Shape)-1] != channels {
		return nil, errors.New("its bias is not one constant per output channel")
	}
	return t.F32(), nil
}

func truth(v bool) int {
	if v {
		return 1
	}
	return 0
}

// deconv writes Deconvolution, whose weights have the output channels outermost.
func (b *builder) deconv(id graph.NodeID, n *graph.Node) error {
	w := b.g.Const(n.Inputs[1])
	if w == nil || len(w.Shape) > 4 {
		return errors.New("its weights are computed, or it slides over more than two axes")
	}
	geo, err := graph.ConvTransposeGeometry(n, b.g.Value(n.Inputs[0]).Shape, graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	if slices.Min(geo.PadEnd) < 0 {
		return errors.New("its output is larger than what it computes")
	}
	in, rows, taps := w.Shape[0]/geo.Group, w.Shape[1], tensor.Count(w.Shape[2:]) // of one group
	src, dst := w.ToRowMajor().F32(), make([]float32, w.Len())
	for g := range geo.Group {
		for i := range in {
			for o := range rows {
				copy(dst[((g*rows+o)*in+i)*taps:][:taps], src[((g*in+i)*rows+o)*taps:])
			}
		}
	}
	typ := "Deconvolution"
	if geo.Group > 1 {
		typ = "DeconvolutionDepthWise"
	}
	return b.window(typ, id, n, geo, rows*geo.Group, dst)
}

// gemm writes InnerProduct.
func (b *builder) gemm(id graph.NodeID, n *graph.Node) error {
	a, w := n.Gemm(), b.g.Const(n.Inputs[1])
	if w == nil || a.TransA || a.Beta != 1 && n.Input(2) != graph.NoValue {
		return errors.New("ncnn's InnerProduct is x*W + b with a constant W")
	}
	return b.product(id, n, w, a)
}

// matmul writes InnerProduct where the right factor is a constant matrix, else MatMul.
func (b *builder) matmul(id graph.NodeID, n *graph.Node) error {
	if w := b.g.Const(n.Inputs[1]); w != nil && len(w.Shape) == 2 {
		return b.product(id, n, w, n.Gemm())
	}
	if len(b.g.Value(n.Inputs[1]).Shape) == 1 {
		return errors.New("ncnn's MatMul takes a vector on the right for a row")
	}
	return b.shaped(id, n, "MatMul", append(slices.Clone(n.Inputs), n.Outputs[0]))
}

// product writes InnerProduct, which multiplies a vector or the rows of a matrix. Where there are more axes they are joined before it.
func (b *builder) product(id graph.NodeID, n *graph.Node, w *tensor.Tensor, a graph.GemmAttrs) error {
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	d, err := b.dims(n.Inputs[0])
	if err != nil {
		return err
	}
	outputs, floats := w.Shape[1], slices.Clone(w.ToRowMajor().F32())
	if a.TransB {
		outputs = w.Shape[0]
	} else {
		floats = transposed(floats, outputs)
	}
	if a.Alpha != 1 {
		for i := range floats {
			floats[i] *= a.Alpha
		}
	}
	bias, err := b.bias(n, outputs)
	if err != nil {
		return err
	}
	inputs := len(floats) / max(outputs, 1)
	rows := 1
	for _, x := range d[:len(d)-1] {
		rows *= x
	}
	if d[len(d)-1] != inputs {
		return fmt.Errorf("rows of %d for a matrix of %d", d[len(d)-1], inputs)
	}
	name := b.g.Node(id).Name
	flat := []int{rows, inputs}
	if rows == 1 {
		flat = flat[1:]
	}
	if !slices.Equal(flat, d) {
		in = b.reshaped(name, in, flat)
	}
	out := n.Outputs[0]
	l := b.add("InnerProduct", id, []string{in}, out, param{0, outputs}, param{1, truth(bias != nil)}, param{2, len(floats)})
	at := len(b.net.layers) - 1
	if err := b.weigh(l, id, n, floats, bias, 1); err != nil {
		return err
	}
	to, err := b.dims(out)
	if err != nil {
		return err
	}
	flat[len(flat)-1] = outputs
	if slices.Equal(flat, to) {
		b.layer[out] = at
		return nil
	}
	b.reshapedOutput(at, out, to)
	return nil
}
