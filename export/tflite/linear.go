package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
)

// weights are the constant factor of a sum and its bias, of integers or of floats.
type weights struct {
	name  string
	codes *tensor.Tensor // in the graph's layout
	scale []float32      // of integers: one, or one per output channel
	bias  []byte         // little-endian, as many as channels; nil: none
	wide  bool           // the bias has 64 bits
	m     int            // output channels
}

// linear writes a step that sums products.
func (b *builder) linear(s *lower.Step, op *lower.Linear) error {
	if op.Func != nil || op.Residual {
		return fmt.Errorf("what is computed between sum and rounding has no form in the file")
	}
	x, err := b.input(s.Inputs[0])
	if err != nil {
		return err
	}
	n := b.p.Graph.Node(s.Node)
	for k, id := range s.Outputs {
		y, err := b.valueOf(id)
		if err != nil {
			return err
		}
		if y.enc == nil {
			return fmt.Errorf("%q is written as float32 from integer sums: TensorFlow Lite's integer kernels write integers", y.name)
		}
		q := op.Scales[k]
		prefer := like(op.Lo, op.Hi)
		if op.Weights == nil {
			if err := b.product(s, op, x, y, q, prefer); err != nil {
				return err
			}
			continue
		}
		w, err := integerWeights(b.p.Graph, n, op)
		if err != nil {
			return err
		}
		if err := b.sum(n, x, y, w, q.Lo, q.Hi, prefer); err != nil {
			return err
		}
	}
	return nil
}

func integerWeights(g *graph.Graph, n *graph.Node, op *lower.Linear) (*weights, error) {
	if op.Weights.Codes.DType != tensor.Int8 {
		return nil, fmt.Errorf("its weights are %s: TensorFlow Lite's are int8", op.Weights.Codes.DType)
	}
	if slices.ContainsFunc(op.Weights.ZeroPoint, func(z int32) bool { return z != 0 }) {
		return nil, fmt.Errorf("its weights have a zero point: TensorFlow Lite's have none")
	}
	w := &weights{name: g.Value(n.Inputs[1]).Name, codes: op.Weights.Codes, wide: op.Wide, m: op.Weights.Channels}
	alpha := n.Gemm().Alpha
	for c := range w.m {
		w.scale = append(w.scale, op.Weights.Scale[c]*alpha)
	}
	if !op.Weights.PerChannel() {
		w.scale = w.scale[:1]
	}
	for c := range w.m {
		bias := int64(0)
		if op.Bias != nil {
			bias = op.Bias[c%len(op.Bias)]
		}
		if op.Wide {
			w.bias = binary.LittleEndian.AppendUint64(w.bias, uint64(bias))
		} else {
			w.bias = binary.LittleEndian.AppendUint32(w.bias, uint32(int32(bias)))
		}
	}
	return w, nil
}

// hybridProduct writes a product of float data, of whose rows the kernel makes codes, and of weights of 8 bits; or a convolution of one
// image, of which it makes them as a whole.
func (b *builder) hybridProduct(s *lower.Step, op *lower.RunTime) error {
	g := b.p.Graph
	n, last := g.Node(s.Node), hybridEnd(b.p, s)
	gemm := n.Gemm()
	if op.Rows == (n.Op == "Conv") || op.Weights == nil || op.Weights.Codes.DType != tensor.Int8 || last < 0 ||
		gemm.Alpha != 1 || gemm.Beta != 1 ||
		slices.ContainsFunc(op.Weights.ZeroPoint, func(z int32) bool { return z != 0 }) {
		return errors.New("scales of run time have no form in the file but in LSTM, for rows of data times int8 weights, and for convolutions, " +
			"with an activation of the file's behind them at most")
	}
	x, err := b.input(s.Inputs[0])
	if err != nil {
		return err
	}
	y, err := b.valueOf(s.Outputs[0])
	if err != nil {
		return err
	}
	w := &weights{name: g.Value(n.Inputs[1]).Name, codes: op.Weights.Codes, m: op.Weights.Channels, scale: op.Weights.Scale}
	if !op.Weights.PerChannel() && n.Op != "Conv" { // with one scale kernels of convolutions differ from XNNPACK's, or read wrong memory
		w.scale = w.scale[:1]
	}
	bias := g.Const(n.Input(2))
	if n.Input(2) != graph.NoValue && (bias == nil || bias.F32() == nil) {
		return errors.New("a bias that is computed")
	}
	w.floatBias(bias)
	return b.sum(n, x, y, w, 0, 0, last)
}

// hybridEnd is the activation behind a product of float data; -1: one that the kernel does not have.
func hybridEnd(p *lower.Program, s *lower.Step) int {
	end := p.Graph.Node(p.Graph.Producer(p.Tensors[s.Outputs[0]].Value))
	if end.ID == s.Node {
		return tf.NoActivation
	}
	if lo, hi, ok := graph.LimitsOf(end, p.Graph.Opset(""), p.Graph.Const); ok {
		if a := like(lo, hi); a != tf.NoActivation && p.Graph.Producer(end.Inputs[0]) == s.Node {
			return a
		}
	}
	return -1
}

// floatBias sets the bias to floatsOf a constant.
func (w *weights) floatBias(c *tensor.Tensor) {
	for _, x := range floatsOf(c, w.m) {
		w.bias = binary.LittleEndian.AppendUint32(w.bias, math.Float32bits(x))
	}
}

// floatsOf are the numbers of a constant of one or of every one of m channels, or zeros.
func floatsOf(c *tensor.Tensor, m int) []float32 {
	out := make([]float32, m)
	if c != nil && c.Len() > 0 {
		numbers := c.ToRowMajor().F32()
		for i := range out {
			out[i] = numbers[i%len(numbers)]
		}
	}
	return out
}

// weight adds the tensor of the weights in an order of axes, to a shape; axis is that of the output channels in it.
func (b *builder) weight(w *weights, perm, shape []int, axis int) int {
	t := tf.Tensor{Name: w.name, Type: types[w.codes.DType], Shape: shape, Data: b.permuteBytes(w.codes, w.codes.Shape, perm)}
	if w.scale != nil {
		t.Quantization = &tf.Quantization{Scale: w.scale, ZeroPoint: make([]int, len(w.scale))}
		if len(w.scale) > 1 {
			t.Quantization.Axis = axis
		}
	}
	return b.tensor(t)
}

// biasOf adds the bias, whose scale is the product of those of input and weights.
func (b *builder) biasOf(w *weights, x *value) int {
	t := tf.Tensor{Name: w.name + "/bias", Type: tf.Float32, Shape: []int{w.m}, Data: w.bias}
	if w.scale != nil && x.enc != nil {
		t.Type, t.Quantization = tf.Int32, &tf.Quantization{ZeroPoint: make([]int, len(w.scale))}
		if w.wide {
			t.Type = tf.Int64
		}
		for _, s := range w.scale {
			t.Quantization.Scale = append(t.Quantization.Scale, x.enc.Scale*s)
		}
	}
	return b.tensor(t)
}

// sum writes y = x times constant weights plus bias, limited.
func (b *builder) sum(n *graph.Node, x, y *value, w *weights, lo, hi int32, prefer int) error {
	if graph.Slides(n.Op) {
		return b.convolution(n, x, y, w, lo, hi, prefer)
	}
	gemm := n.Gemm()
	if len(w.codes.Shape) != 2 {
		return fmt.Errorf("weights of %v: FULLY_CONNECTED has two axes of weights", w.codes.Shape)
	}
	if gemm.TransA {
		x = b.turned(x, []int{1, 0})
	}
	k, m := w.codes.Shape[0], w.codes.Shape[1]
	perm := []int{1, 0}
	if gemm.TransB {
		k, m, perm = m, k, []int{0, 1}
	}
	in, codes := 0, w.codes
	if x.flat != nil && len(x.flat.of.at) > 0 && !sameBytes(x.flat.of.shape, x.flat.of.perm) {
		// The columns of the weights in the order in which the elements lie.
		v := x.flat.of
		numbers := tensor.New(tensor.Int32, v.shape[1:]...)
		for i := range tensor.Of[int32](numbers) {
			tensor.Of[int32](numbers)[i] = int32(i)
		}
		stored := make([]int, 0, len(v.shape)-1)
		for _, a := range v.perm[1:] {
			stored = append(stored, a-1)
		}
		order := b.permuteBytes(numbers, numbers.Shape, stored)
		codes = reordered(w.codes, order, gemm.TransB)
		in = b.temporary(x, "stored", x.shape, x.enc)
		b.reshape(v.at[fmt.Sprint(v.perm)], in)
	} else {
		in = b.read(x, identity(len(x.shape)))
	}
	reordered := *w
	reordered.codes = codes
	ids := []int{in, b.weight(&reordered, perm, []int{m, k}, 0), b.biasOf(w, x)}
	b.limited(y, identity(len(y.shape)), lo, hi, prefer, true, func(out, a int) {
		b.op("FULLY_CONNECTED", ids, []int{out}, "fused_activation_function", a, "keep_num_dims", len(y.shape) != 2)
	})
	return nil
}

// reordered returns a matrix of bytes or floats with its inputs in another order: little-endian int32 of the old places.
func reordered(t *tensor.Tensor, order []byte, inputsLast bool) *tensor.Tensor {
	rows, cols := t.Shape[0], t.Shape[1]
	out := tensor.New(t.DType, rows, cols)
	move := func(to, from int) {
		switch d := out.Data.(type) {
		case []int8:
			d[to] = tensor.Of[int8](t)[from]
		case []float32:
			d[to] = t.F32()[from]
		}
	}
	at := func(i int) int { return int(binary.LittleEndian.Uint32(order[4*i:])) }
	for i := range rows {
		for j := range cols {
			if inputsLast {
				move(i*cols+j, i*cols+at(j))
			} else {
				move(i*cols+j, at(i)*cols+j)
			}
		}
	}
	return out
}

func (b *builder) convolution(n *graph.Node, x, y *value, w *weights, lo, hi int32, prefer int) error {
	s := w.codes.Shape
	geo, err := graph.WindowGeometry(n, graph.Static(x.shape...), graph.Static(s...))
	if err != nil {
		return err
	}
	if rank := len(x.shape); rank != 3 && rank != 4 {
		return fmt.Errorf("%d spatial axes: the file's convolutions have two", rank-2)
	}
	perm := last(len(s)) // output channels first, input channels last
	flat := func(list []int) []int {
		if len(s) == 3 {
			return slices.Insert(slices.Clone(list), 1, 1)
		}
		return list
	}
	if n.Conv().Transposed {
		return b.transposed(geo, x, y, w, lo, hi, prefer)
	}
	l, _ := graph.LinearOf(n, graph.WeightInput, s)
	depthwise := l.Depthwise()
	in, win := b.window(x, geo.Kernel, geo.Stride, geo.Dilation, geo.PadBegin, geo.Out, nil, false, true)
	options := win.options("dilation_h_factor", win.dilation[0], "dilation_w_factor", win.dilation[1])
	name, ids := "CONV_2D", []int{in, 0, 0}
	if depthwise {
		name = "DEPTHWISE_CONV_2D"
		options = append(options, "depth_multiplier", s[0]/x.shape[1])
		perm = append(identity(len(s))[1:], 0) // one, spatial, output channels
		ids[1] = b.weight(w, perm, flat(permuted(s, perm)), 3)
	} else {
		ids[1] = b.weight(w, perm, flat(permuted(s, perm)), 0)
	}
	ids[2] = b.biasOf(w, x)
	b.slid(y, lo, hi, prefer, func(out, a int) {
		b.op(name, ids, []int{out}, append(options, "fused_activation_function", a)...)
	})
	return nil
}

// slice writes a STRIDED_SLICE with everything made explicit; end is outside, -1-size in front of the first element for negative strides.
func (b *builder) slice(from, to int, begin, end, stride []int) {
	mask := 0
	for i, s := range stride {
		if s < 0 && end[i] < 0 {
			mask |= 1 << i
			end[i] = 0
		}
	}
	b.op("STRIDED_SLICE", []int{from, b.list("begin", begin), b.list("end", end), b.list("strides", stride)}, []int{to}, "end_mask", mask)
}

// product writes a product of two computed matrices.
func (b *builder) product(s *lower.Step, op *lower.Linear, x, y *value, q lower.Requantization, prefer int) error {
	if op.Bias != nil || len(s.Inputs) != 2 || op.Kind != "MatMul" {
		return fmt.Errorf("BATCH_MATMUL has no bias, and factors that are not transposed")
	}
	w, err := b.input(s.Inputs[1])
	if err != nil {
		return err
	}
	return b.matmul(x, w, y, q.Lo, q.Hi, prefer)
}

// batchAxes are the most axes of a BATCH_MATMUL's factors (2.3).
const batchAxes = 5

// shapedMatmul writes a product that has the elements of y in another shape, and y behind it; suffix is what its name has beside y's.
func (b *builder) shapedMatmul(x, w, y *value, suffix string, shape []int, lo, hi int32, prefer int) error {
	m := &value{name: y.name + suffix, typ: y.typ, enc: y.enc, shape: shape, at: map[string]int{}}
	if err := b.matmul(x, w, m, lo, hi, prefer); err != nil {
		return err
	}
	b.reshape(b.read(m, identity(len(shape))), b.make(y, identity(len(y.shape))))
	return nil
}

func (b *builder) matmul(x, w, y *value, lo, hi int32, prefer int) error {
	if len(x.shape) < 2 || len(w.shape) < 2 { // of vectors: a row, and a column
		shape := slices.Clone(y.shape)
		if len(w.shape) == 1 {
			shape, w = append(shape, 1), b.shaped(w, []int{w.shape[0], 1})
		}
		if len(x.shape) == 1 {
			shape, x = slices.Insert(shape, len(shape)-1, 1), b.shaped(x, []int{1, x.shape[0]})
		}
		return b.shapedMatmul(x, w, y, "/matrix", shape, lo, hi, prefer)
	}
	if len(x.shape) > batchAxes || len(w.shape) > batchAxes { // the axes in front as one
		lead := x.shape[:len(x.shape)-2]
		if len(w.shape) > 2 && !slices.Equal(lead, w.shape[:len(w.shape)-2]) {
			return fmt.Errorf("BATCH_MATMUL has up to %d axes", batchAxes)
		}
		as := func(v *value) []int { return append([]int{tensor.Count(lead)}, v.shape[len(v.shape)-2:]...) }
		if len(w.shape) > 2 {
			w = b.shaped(w, as(w))
		}
		return b.shapedMatmul(b.shaped(x, as(x)), w, y, "/matrices", as(y), lo, hi, prefer)
	}
	ids := []int{b.read(x, identity(len(x.shape))), b.read(w, identity(len(w.shape)))}
	b.limited(y, identity(len(y.shape)), lo, hi, prefer, false, func(out, _ int) {
		b.op("BATCH_MATMUL", ids, []int{out}, "adj_x", false, "adj_y", false)
	})
	return nil
}
