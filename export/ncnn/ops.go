package ncnn

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Keys of parameters that several layers share.
const (
	keyInt8       = 8  // int8_scale_term
	keyActivation = 9  // and its numbers behind it
	keyFeatures   = 31 // of every layer: what it may not use
)

// noWinograd is the bit of keyFeatures that keeps a layer from Winograd's transformation.
const noWinograd = 1 << 6

// writers write the layers of an operator.
var writers = map[string]func(*builder, graph.NodeID, *graph.Node) error{
	"Conv": (*builder).conv, "ConvTranspose": (*builder).deconv, "Gemm": (*builder).gemm, "MatMul": (*builder).matmul,

	"Relu": activation("ReLU", 1), "LeakyRelu": (*builder).leaky, "Clip": (*builder).clip, "Sigmoid": activation("Sigmoid", 4),
	"Mish": activation("Mish", 5), "HardSwish": (*builder).hardSwish, "HardSigmoid": (*builder).hardSigmoid, "PRelu": (*builder).prelu,
	"Tanh": activation("TanH", 0), "Elu": (*builder).elu, "Selu": (*builder).selu, "Softplus": activation("Softplus", 0),
	"Erf": activation("Erf", 0), "Gelu": (*builder).gelu, "Swish": (*builder).swish,

	"Abs": unary(0), "Neg": unary(1), "Floor": unary(2), "Ceil": unary(3), "Sqrt": unary(5), "Exp": unary(7), "Log": unary(8), "Sin": unary(9),
	"Cos": unary(10), "Tan": unary(11), "Asin": unary(12), "Acos": unary(13), "Atan": unary(14), "Reciprocal": unary(15), "Round": unary(18),

	"Add": twoOperands(0, 0), "Sub": twoOperands(1, 7), "Mul": twoOperands(2, 2), "Div": twoOperands(3, 8), "Max": twoOperands(4, 4), "Min": twoOperands(5, 5), "Pow": (*builder).pow,

	"MaxPool": (*builder).pool, "AveragePool": (*builder).pool, "GlobalMaxPool": (*builder).globalPool, "GlobalAveragePool": (*builder).globalPool,
	"Softmax": (*builder).softmax, "LogSoftmax": (*builder).softmax, "BatchNormalization": (*builder).batchNorm,
	"LayerNormalization": (*builder).layerNorm,
	"ReduceSum":          reduce(0), "ReduceMean": reduce(3), "ReduceMax": reduce(4), "ReduceMin": reduce(5), "ReduceProd": reduce(6),
	"ReduceL1": reduce(7), "ReduceL2": reduce(8),

	"Identity": (*builder).same, "Dropout": (*builder).same, "Cast": (*builder).cast, "Reshape": (*builder).reshape, "Flatten": (*builder).reshape,
	"Squeeze": (*builder).reshape, "Unsqueeze": (*builder).reshape, "Transpose": (*builder).transpose, "Concat": (*builder).concat,
	"Split": (*builder).split, "Slice": (*builder).slice, "Pad": (*builder).pad, "Resize": (*builder).resize, "Upsample": (*builder).resize,
	"DepthToSpace": (*builder).depthToSpace,
}

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
	if axes > 2 || axes == 1 && geo.Group > 1 {
		return fmt.Errorf("it slides over %d axes in %d groups: ncnn's int8 and float layers here slide over two, or over one without groups", axes, geo.Group)
	}
	typ := [...]string{"", "Convolution1D", "Convolution"}[axes]
	if geo.Group > 1 {
		typ = "ConvolutionDepthWise"
	}
	return b.window(typ, id, n, geo, w.Shape[0], w.ToRowMajor().F32())
}

// window writes a layer that slides: weights as ncnn has them, the output channels outermost.
func (b *builder) window(typ string, id graph.NodeID, n *graph.Node, geo *graph.Geometry, outputs int, weights []float32) error {
	if _, err := b.sample(n.Inputs[0], len(geo.Kernel)+1); err != nil {
		return err
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	bias, err := b.bias(n, outputs)
	if err != nil {
		return err
	}
	last := len(geo.Kernel) - 1 // the width
	params := []param{{0, outputs}, {1, geo.Kernel[last]}, {2, geo.Dilation[last]}, {3, geo.Stride[last]}, {4, geo.PadBegin[last]}, {5, truth(bias != nil)},
		{6, len(weights)}}
	if geo.Group > 1 {
		params = append(params, param{7, geo.Group})
	}
	if last == 1 {
		params = append(params, param{11, geo.Kernel[0]}, param{12, geo.Dilation[0]}, param{13, geo.Stride[0]}, param{14, geo.PadBegin[0]}, param{16, geo.PadEnd[0]})
	}
	params = append(params, param{15, geo.PadEnd[last]})
	for i, p := range slices.Backward(geo.OutputPadding) {
		if p != 0 {
			params = append(params, param{18 + last - i, p})
		}
	}
	l := b.add(typ, id, []string{in}, n.Outputs[0], params...)
	b.layer[n.Outputs[0]] = len(b.net.layers) - 1
	return b.weigh(l, id, n, weights, bias, geo.Group)
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
		return fmt.Errorf("its weights have %d scales for %d groups: ncnn has one for each group, or one for all (weights=int8-sym-tensor)", len(w), groups)
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
	if w == nil || len(w.Shape) != 4 {
		return errors.New("its weights are computed, or it does not slide over two axes")
	}
	geo, err := graph.ConvTransposeGeometry(n, b.g.Value(n.Inputs[0]).Shape, graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	if geo.PadEnd[0] < 0 || geo.PadEnd[1] < 0 {
		return errors.New("its output is larger than what it computes")
	}
	in, rows, taps := w.Shape[0]/geo.Group, w.Shape[1], w.Shape[2]*w.Shape[3] // of one group
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
	var in []string
	rank := 0
	for _, v := range append(slices.Clone(n.Inputs), n.Outputs[0]) {
		d, err := b.dims(v)
		if err != nil {
			return err
		}
		rank = max(rank, len(d))
	}
	for _, v := range n.Inputs {
		x, err := b.ranked(v, rank)
		if err != nil {
			return err
		}
		in = append(in, x)
	}
	return b.shaped(id, n, rank, "MatMul", in)
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

// reshapedOutput puts a Reshape behind a layer, which then makes the value.
func (b *builder) reshapedOutput(at int, out graph.ValueID, d []int) {
	l := &b.net.layers[at]
	name := l.tops[0]
	l.tops[0] = b.blobName(name + "_flat")
	b.net.layers = append(b.net.layers, layer{typ: "Reshape", name: b.layerName(name + "_reshape"), bottoms: []string{b.net.layers[at].tops[0]}, tops: []string{name},
		params: sized(d)})
	b.blobs[out] = name
}

// shaped writes a layer whose result has rank axes, with a Reshape where the value has fewer.
func (b *builder) shaped(id graph.NodeID, n *graph.Node, rank int, typ string, in []string, params ...param) error {
	d, err := b.dims(n.Outputs[0])
	if err != nil {
		return err
	}
	b.add(typ, id, in, n.Outputs[0], params...)
	if len(d) != rank {
		b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], d)
	}
	return nil
}

// ranked is the blob of a value with axes of size 1 in front, so that it has rank of them.
func (b *builder) ranked(v graph.ValueID, rank int) (string, error) {
	d, err := b.dims(v)
	if err != nil {
		return "", err
	}
	wide := d
	for len(wide) < rank {
		wide = slices.Insert(slices.Clone(wide), 0, 1)
	}
	if len(wide) > 4 {
		return "", fmt.Errorf("%d axes: ncnn has four", len(wide))
	}
	if b.g.Const(v) != nil && b.blobs[v] == "" {
		return b.constant(v, wide)
	}
	in, err := b.read(v)
	if err != nil || len(wide) == len(d) {
		return in, err
	}
	return b.reshaped(b.g.Value(v).Name, in, wide), nil
}

// elementwise writes a layer of one input, or takes it into the layer before as its activation: the type of it, 0 for none.
func (b *builder) elementwise(id graph.NodeID, n *graph.Node, typ string, fused int, numbers []float32, params ...param) error {
	x := n.Inputs[0]
	at, open := b.layer[x]
	if _, sole := b.g.SoleUse(x); open && fused != 0 && sole && !b.g.IsOutput(x) {
		b.fuse(at, n.Outputs[0], fused, numbers)
		return nil
	}
	in, err := b.read(x)
	if err != nil {
		return err
	}
	b.add(typ, id, []string{in}, n.Outputs[0], params...)
	return nil
}

// fuse lets a layer compute an activation; its result is that of the activation then.
func (b *builder) fuse(at int, out graph.ValueID, typ int, numbers []float32) {
	l := &b.net.layers[at]
	l.set(keyActivation, typ)
	if len(numbers) > 0 {
		l.set(keyActivation+1, numbers)
	}
	l.tops[0] = b.blobName(b.g.Value(out).Name)
	b.blobs[out] = l.tops[0]
}

func activation(typ string, fused int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error { return b.elementwise(id, n, typ, fused, nil) }
}

func (b *builder) leaky(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "ReLU", 2, []float32{n.Alpha()}, param{0, n.Alpha()})
}

func (b *builder) elu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "ELU", 0, nil, param{0, n.Alpha()})
}

func (b *builder) selu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "SELU", 0, nil, param{0, n.AttrFloat("alpha", 1.6732632)}, param{1, n.AttrFloat("gamma", 1.050701)})
}

func (b *builder) gelu(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "GELU", 0, nil, param{0, truth(n.TanhGelu())})
}

func (b *builder) swish(id graph.NodeID, n *graph.Node) error {
	if n.Alpha() != 1 {
		return fmt.Errorf("its alpha is %g: ncnn's Swish has 1", n.Alpha())
	}
	return b.elementwise(id, n, "Swish", 0, nil)
}

func (b *builder) clip(id graph.NodeID, n *graph.Node) error {
	lo, hi, ok := graph.LimitsOf(n, b.g.Opset(""), b.g.Const)
	if !ok || lo != lo || hi != hi {
		return errors.New("its bounds are not known float32 numbers")
	}
	lo = min(lo, hi)
	if lo == 0 && math.IsInf(float64(hi), 1) {
		return b.elementwise(id, n, "ReLU", 1, nil)
	}
	lo, hi = max(lo, -math.MaxFloat32), min(hi, math.MaxFloat32)
	return b.elementwise(id, n, "Clip", 3, []float32{lo, hi}, param{0, lo}, param{1, hi})
}

// sixth is the slope of HardSwish.
const sixth = float32(1) / 6

func (b *builder) hardSwish(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "HardSwish", 6, []float32{sixth, 0.5}, param{0, sixth}, param{1, float32(0.5)})
}

func (b *builder) hardSigmoid(id graph.NodeID, n *graph.Node) error {
	return b.elementwise(id, n, "HardSigmoid", 0, nil, param{0, n.Alpha()}, param{1, n.Beta()})
}

func (b *builder) prelu(id graph.NodeID, n *graph.Node) error {
	slope := b.g.Const(n.Input(1))
	d, err := b.sample(n.Inputs[0], 1, 2, 3)
	if err != nil {
		return err
	}
	if slope == nil || slope.DType != tensor.Float32 || slope.Len() != 1 && (slope.Len() != d[0] || len(slope.Shape) > 0 && slope.Shape[0] != d[0] && !batched(slope.Shape)) {
		return errors.New("its slopes are not constants, one or one for each channel")
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	b.add("PReLU", id, []string{in}, n.Outputs[0], param{0, slope.Len()}).weights = []weight{{floats: slope.ToRowMajor().F32()}}
	return nil
}

// unit writes a pattern as one layer.
func (b *builder) unit(id graph.NodeID, u *unit) error {
	n := *b.g.Node(id)
	n.Inputs = []graph.ValueID{u.match.Value("x")}
	switch u.family {
	case "HardSwish":
		return b.hardSwish(id, &n)
	case "Mish":
		return activation("Mish", 5)(b, id, &n)
	case "Gelu":
		fast := slices.ContainsFunc(u.match.Nodes, func(id graph.NodeID) bool { return b.g.Node(id).Op == "Tanh" })
		return b.elementwise(id, &n, "GELU", 0, nil, param{0, truth(fast)})
	}
	return b.elementwise(id, &n, "Swish", 0, nil)
}

func unary(op int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		return b.elementwise(id, n, "UnaryOp", 0, nil, param{0, op})
	}
}

// twoOperands writes BinaryOp; turned is the operator with its operands exchanged.
func twoOperands(op, turned int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		if len(n.Inputs) != 2 {
			return fmt.Errorf("%d operands: write it as a chain of two each", len(n.Inputs))
		}
		for i, v := range n.Inputs {
			t := b.g.Const(v)
			if t == nil || t.Len() != 1 || t.DType != tensor.Float32 || len(t.Shape) > len(b.g.Value(n.Inputs[1-i]).Shape) {
				continue
			}
			in, err := b.read(n.Inputs[1-i])
			if err != nil {
				return err
			}
			b.add("BinaryOp", id, []string{in}, n.Outputs[0], param{0, [...]int{turned, op}[i]}, param{1, 1}, param{2, t.F32()[0]})
			return nil
		}
		rank := 0
		for _, v := range n.Inputs {
			d, err := b.dims(v)
			if err != nil {
				return err
			}
			rank = max(rank, len(d))
		}
		var in []string
		for _, v := range n.Inputs {
			x, err := b.ranked(v, rank)
			if err != nil {
				return err
			}
			in = append(in, x)
		}
		return b.shaped(id, n, rank, "BinaryOp", in, param{0, op})
	}
}

// powers are the exponents that UnaryOp has an operator for. ncnn computes others as exp(e*log(x)), which is not defined below 0.
var powers = map[float32]int{2: 4, 0.5: 5, -0.5: 6, -1: 15}

func (b *builder) pow(id graph.NodeID, n *graph.Node) error {
	e := b.g.Const(n.Inputs[1])
	if e == nil || e.Len() != 1 || e.DType != tensor.Float32 {
		return errors.New("its exponent is not one float32 constant")
	}
	op, ok := powers[e.F32()[0]]
	if !ok {
		return fmt.Errorf("exponent %g: ncnn computes 2, 0.5, -0.5 and -1 for numbers of any sign", e.F32()[0])
	}
	return b.elementwise(id, n, "UnaryOp", 0, nil, param{0, op})
}

func (b *builder) pool(id graph.NodeID, n *graph.Node) error {
	geo, err := graph.PoolGeometry(n, b.g.Value(n.Inputs[0]).Shape)
	if err != nil {
		return err
	}
	if _, err := b.sample(n.Inputs[0], 3); err != nil {
		return err
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != graph.NoValue && len(b.g.Uses(n.Outputs[1])) > 0 {
		return errors.New("its indices are in use")
	}
	if len(geo.Kernel) != 2 || geo.Dilation[0] != 1 || geo.Dilation[1] != 1 {
		return fmt.Errorf("window %v with dilations %v: ncnn's Pooling here slides over two axes without dilation", geo.Kernel, geo.Dilation)
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	mode := 1 // what the paddings say, and no more
	for i := range 2 {
		padded := geo.In[i] + geo.PadBegin[i] + geo.PadEnd[i] - geo.Kernel[i]
		switch geo.Out[i] {
		case padded/geo.Stride[i] + 1:
		case (padded+geo.Stride[i]-1)/geo.Stride[i] + 1:
			mode = 0 // filled up at the end
		default:
			return fmt.Errorf("%d outputs for %d positions in steps of %d, which ncnn rounds another way", geo.Out[i], padded+1, geo.Stride[i])
		}
	}
	if mode == 0 {
		for i := range 2 {
			if padded := geo.In[i] + geo.PadBegin[i] + geo.PadEnd[i] - geo.Kernel[i]; (padded+geo.Stride[i]-1)/geo.Stride[i]+1 != geo.Out[i] {
				return errors.New("its two axes are rounded in two ways, which ncnn does not have")
			}
		}
	}
	b.add("Pooling", id, []string{in}, n.Outputs[0], param{0, truth(n.Op == "AveragePool")}, param{1, geo.Kernel[1]}, param{11, geo.Kernel[0]}, param{2, geo.Stride[1]},
		param{12, geo.Stride[0]}, param{3, geo.PadBegin[1]}, param{14, geo.PadEnd[1]}, param{13, geo.PadBegin[0]}, param{15, geo.PadEnd[0]}, param{5, mode},
		param{6, truth(n.Pool().CountPadding)})
	return nil
}

// globalPool writes a global Pooling, whose result is a vector, and a Reshape.
func (b *builder) globalPool(id graph.NodeID, n *graph.Node) error {
	d, err := b.sample(n.Inputs[0], 3)
	if err != nil {
		return err
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	b.add("Pooling", id, []string{in}, n.Outputs[0], param{0, truth(n.Op == "GlobalAveragePool")}, param{4, 1})
	b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], []int{d[0], 1, 1})
	return nil
}

func (b *builder) softmax(id graph.NodeID, n *graph.Node) error {
	axis, flat := graph.SoftmaxAxis(n, b.g.Opset(n.Domain))
	x := n.Inputs[0]
	in, err := b.read(x)
	if err != nil {
		return err
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	a, err := b.axis(x, axis)
	if err != nil {
		return err
	}
	if flat { // the axes from axis on are one: those of size 1 do not matter
		long := slices.IndexFunc(d[a:], func(s int) bool { return s > 1 })
		if long >= 0 && slices.ContainsFunc(d[a+long+1:], func(s int) bool { return s > 1 }) {
			return errors.New("it works along several axes at once")
		}
		a += max(long, 0)
	}
	if n.Op == "Softmax" {
		b.add("Softmax", id, []string{in}, n.Outputs[0], param{0, a}, param{1, 1})
		return nil
	}
	// The logarithm of a softmax would be that of 0 where it underflows: the largest is taken off first.
	name := b.g.Value(n.Outputs[0]).Name
	along := []param{{1, 0}, {3, []int{a}}, {4, 1}, {5, 1}}
	most := b.step("Reduction", name+"_max", in, append([]param{{0, 4}}, along...)...)
	b.net.layers = append(b.net.layers, layer{typ: "BinaryOp", name: b.layerName(name + "_less"), bottoms: []string{in, most}, tops: []string{b.blobName(name + "_less")},
		params: []param{{0, 1}}})
	less := b.net.layers[len(b.net.layers)-1].tops[0]
	sum := b.step("Reduction", name+"_sum", less, append([]param{{0, 10}}, along...)...)
	b.add("BinaryOp", id, []string{less, sum}, n.Outputs[0], param{0, 1})
	return nil
}

func (b *builder) batchNorm(id graph.NodeID, n *graph.Node) error {
	if _, err := b.sample(n.Inputs[0], 1, 2, 3, 4); err != nil {
		return err
	}
	in, err := b.read(n.Inputs[0])
	if err != nil {
		return err
	}
	var arrays [4]weight // slope, mean, variance, bias
	for i, from := range []int{1, 3, 4, 2} {
		t := b.g.Const(n.Input(from))
		if t == nil || t.DType != tensor.Float32 {
			return errors.New("its numbers are computed")
		}
		arrays[i] = weight{floats: t.F32()}
	}
	b.add("BatchNorm", id, []string{in}, n.Outputs[0], param{0, arrays[0].len()}, param{1, float32(n.Epsilon())}).weights = arrays[:]
	return nil
}

func (b *builder) layerNorm(id graph.NodeID, n *graph.Node) error {
	x := n.Inputs[0]
	in, err := b.read(x)
	if err != nil {
		return err
	}
	d, err := b.dims(x)
	if err != nil {
		return err
	}
	a, err := b.axis(x, n.Axis())
	if err != nil {
		return err
	}
	gamma := b.g.Const(n.Input(1))
	size := 1
	for _, s := range d[a:] {
		size *= s
	}
	if gamma == nil || gamma.DType != tensor.Float32 || gamma.Len() != size {
		return errors.New("its factors are not one constant for each element")
	}
	beta := make([]float32, size)
	if v := n.Input(2); v != graph.NoValue {
		t := b.g.Const(v)
		if t == nil || t.DType != tensor.Float32 || t.Len() != size {
			return errors.New("its summands are not one constant for each element")
		}
		beta = t.ToRowMajor().F32()
	}
	b.add("LayerNorm", id, []string{in}, n.Outputs[0], param{0, size}, param{1, float32(n.Epsilon())}, param{2, 1}).weights =
		[]weight{{floats: gamma.ToRowMajor().F32()}, {floats: beta}}
	return nil
}

// reduce writes Reduction with the axes kept, and a Reshape where they are not.
func reduce(op int) func(*builder, graph.NodeID, *graph.Node) error {
	return func(b *builder, id graph.NodeID, n *graph.Node) error {
		x := n.Inputs[0]
		d, err := b.dims(x)
		if err != nil {
			return err
		}
		axes := n.AttrInts("axes")
		if t := b.g.Const(n.Input(1)); t != nil {
			axes = t.I64()
		} else if n.Input(1) != graph.NoValue {
			return errors.New("its axes are computed")
		}
		var list []int
		s, _ := b.g.Value(x).Shape.Ints()
		for _, a := range axes {
			if at, ok := graph.Axis(int(a), len(s)); ok && at == 0 && batched(s) {
				continue // one element
			}
			at, err := b.axis(x, int(a))
			if err != nil {
				return err
			}
			list = append(list, at)
		}
		if len(axes) == 0 {
			if n.AttrInt("noop_with_empty_axes", 0) != 0 {
				return b.same(id, n)
			}
			for i := range d {
				list = append(list, i)
			}
		}
		slices.Sort(list)
		in, err := b.read(x)
		if err != nil {
			return err
		}
		kept := slices.Clone(d)
		for _, a := range list {
			kept[a] = 1
		}
		switch {
		case len(list) > 0:
			b.add("Reduction", id, []string{in}, n.Outputs[0], param{0, op}, param{1, 0}, param{3, list}, param{4, 1}, param{5, 1})
		case op == 7 || op == 8: // norms of single numbers
			b.add("UnaryOp", id, []string{in}, n.Outputs[0], param{0, 0})
		default: // over a batch of one: a Reduction without axes would take all of them
			b.add("Noop", id, []string{in}, n.Outputs[0])
		}
		to, err := b.dims(n.Outputs[0])
		if err != nil {
			return err
		}
		if !slices.Equal(to, kept) {
			b.reshapedOutput(len(b.net.layers)-1, n.Outputs[0], to)
		}
		return nil
	}
}
