package tflite

import (
	"math"
	"slices"

	tf "qwb/graph/tflite"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// opRow is an operator of the file: its table of options, and the version of its definition for float32, int8 and int16 (the rules of
// tflite/tools/versioning/op_version.cc of google-ai-edge/LiteRT; 0: it has no kernel for them).
type opRow struct {
	options            string
	float, int8, int16 int
}

var ops = map[string]opRow{
	"ABS":                     {"Abs", 1, 0, 0},
	"ADD":                     {"Add", 1, 2, 3},
	"ARG_MAX":                 {"ArgMax", 1, 0, 0},
	"ARG_MIN":                 {"ArgMin", 1, 0, 0},
	"AVERAGE_POOL_2D":         {"Pool2D", 1, 2, 3},
	"BATCH_MATMUL":            {"BatchMatMul", 1, 2, 3},
	"BROADCAST_TO":            {"BroadcastTo", 2, 2, 3},
	"CAST":                    {"Cast", 1, 1, 3},
	"CEIL":                    {"", 1, 0, 0},
	"CONCATENATION":           {"Concatenation", 1, 2, 3},
	"CONV_2D":                 {"Conv2D", 1, 3, 4},
	"COS":                     {"Cos", 1, 0, 0},
	"CUMSUM":                  {"Cumsum", 1, 0, 0},
	"DEPTHWISE_CONV_2D":       {"DepthwiseConv2D", 1, 3, 5},
	"DEPTH_TO_SPACE":          {"DepthToSpace", 1, 2, 0},
	"DEQUANTIZE":              {"Dequantize", 0, 2, 3},
	"DIV":                     {"Div", 1, 0, 0},
	"ELU":                     {"", 1, 1, 0},
	"EQUAL":                   {"Equal", 1, 0, 0},
	"EXP":                     {"Exp", 1, 2, 0},
	"FLOOR":                   {"", 1, 0, 0},
	"FULLY_CONNECTED":         {"FullyConnected", 1, 4, 7},
	"GATHER":                  {"Gather", 1, 2, 4},
	"GELU":                    {"Gelu", 1, 2, 0},
	"GREATER":                 {"Greater", 1, 0, 0},
	"GREATER_EQUAL":           {"GreaterEqual", 1, 0, 0},
	"HARD_SWISH":              {"HardSwish", 1, 1, 0},
	"LEAKY_RELU":              {"LeakyRelu", 1, 1, 2},
	"LESS":                    {"Less", 1, 0, 0},
	"LESS_EQUAL":              {"LessEqual", 1, 0, 0},
	"LOG":                     {"", 1, 2, 0},
	"LOG_SOFTMAX":             {"LogSoftmax", 1, 0, 0},
	"LOGICAL_AND":             {"LogicalAnd", 1, 0, 0},
	"LOGICAL_NOT":             {"LogicalNot", 1, 0, 0},
	"LOGICAL_OR":              {"LogicalOr", 1, 0, 0},
	"LOGISTIC":                {"", 1, 2, 0},
	"MAXIMUM":                 {"MaximumMinimum", 1, 2, 4},
	"MAX_POOL_2D":             {"Pool2D", 1, 2, 3},
	"MEAN":                    {"Reducer", 1, 2, 3},
	"MINIMUM":                 {"MaximumMinimum", 1, 2, 4},
	"MIRROR_PAD":              {"MirrorPad", 1, 2, 3},
	"MUL":                     {"Mul", 1, 2, 4},
	"NEG":                     {"Neg", 1, 0, 0},
	"PACK":                    {"Pack", 1, 2, 3},
	"PAD":                     {"Pad", 1, 2, 3},
	"PADV2":                   {"PadV2", 1, 2, 3},
	"POW":                     {"Pow", 1, 0, 0},
	"PRELU":                   {"", 1, 0, 0},
	"QUANTIZE":                {"Quantize", 1, 1, 2},
	"REDUCE_MAX":              {"Reducer", 1, 2, 3},
	"REDUCE_MIN":              {"Reducer", 1, 2, 3},
	"REDUCE_PROD":             {"Reducer", 1, 0, 0},
	"RELU":                    {"", 1, 2, 3},
	"RELU6":                   {"", 1, 2, 3},
	"RESHAPE":                 {"Reshape", 1, 1, 1},
	"RESIZE_BILINEAR":         {"ResizeBilinear", 3, 0, 0},
	"RESIZE_NEAREST_NEIGHBOR": {"ResizeNearestNeighbor", 3, 3, 4},
	"REVERSE_V2":              {"ReverseV2", 1, 3, 1},
	"ROUND":                   {"", 1, 0, 0},
	"RSQRT":                   {"", 1, 0, 0},
	"SELECT_V2":               {"SelectV2", 1, 0, 0},
	"SIGN":                    {"Sign", 1, 0, 0},
	"SIN":                     {"", 1, 0, 0},
	"SOFTMAX":                 {"Softmax", 1, 2, 0},
	"SPACE_TO_DEPTH":          {"SpaceToDepth", 1, 2, 0},
	"SQRT":                    {"", 1, 0, 0},
	"SQUARE":                  {"Square", 1, 0, 0},
	"SQUARED_DIFFERENCE":      {"SquaredDifference", 1, 0, 0},
	"STRIDED_SLICE":           {"StridedSlice", 1, 2, 4},
	"SUB":                     {"Sub", 1, 2, 5},
	"SUM":                     {"Reducer", 1, 0, 0},
	"TANH":                    {"", 1, 2, 0},
	"TILE":                    {"Tile", 1, 3, 0},
	"TOPK_V2":                 {"TopKV2", 1, 0, 0},
	"TRANSPOSE":               {"Transpose", 1, 2, 5},
	"TRANSPOSE_CONV":          {"TransposeConv", 3, 3, 3},
	"UNPACK":                  {"Unpack", 1, 2, 4},

	"UNIDIRECTIONAL_SEQUENCE_LSTM": {"UnidirectionalSequenceLSTM", 1, 1, 0},
}

// of is the version for a type of elements.
func (r opRow) of(t tf.Type) int {
	switch t {
	case tf.Int8:
		return r.int8
	case tf.Int16:
		return r.int16
	}
	return r.float
}

// version is the version of a call.
func (r opRow) version(b *builder, o *tf.Operator) int {
	in := func(i int) *tf.Tensor { return &b.sub.Tensors[o.Inputs[i]] }
	t := in(0).Type
	switch o.Op {
	case "QUANTIZE":
		t = b.sub.Tensors[o.Outputs[0]].Type
	case "TRANSPOSE_CONV":
		t = in(2).Type
	case "CAST":
		if castAlone(t) || castAlone(b.sub.Tensors[o.Outputs[0]].Type) {
			return 5
		}
	case "UNIDIRECTIONAL_SEQUENCE_LSTM":
		if t == tf.Float32 && in(2).Type == tf.Int8 {
			return 2
		}
	case "SELECT_V2":
		t = in(1).Type
	case "CONV_2D":
		switch x, w := in(0), in(1); {
		case x.Shape[3] != w.Shape[3]:
			return 6
		case hybrid(x, w):
			return 5
		}
	case "DEPTHWISE_CONV_2D":
		if hybrid(in(0), in(1)) {
			return 6
		}
		if t == tf.Float32 && (o.Options.Int("dilation_w_factor") > 1 || o.Options.Int("dilation_h_factor") > 1) {
			return 2
		}
	case "FULLY_CONNECTED":
		if o.Options.Bool("keep_num_dims") && t != tf.Int16 {
			return 5
		}
	case "MUL":
		if t == tf.Int8 && factor(in(0), in(1), &b.sub.Tensors[o.Outputs[0]]) >= 1 {
			return 3
		}
	}
	return max(r.of(t), 1)
}

// hybrid reports whether data x are float and weights w are integers, so that kernels make codes of the data.
func hybrid(x, w *tf.Tensor) bool { return x.Type == tf.Float32 && w.Type == tf.Int8 && w.Data != nil }

func factor(x, w, y *tf.Tensor) float32 {
	return x.Quantization.Scale[0] * w.Quantization.Scale[0] / y.Quantization.Scale[0]
}

// limitsOf are the codes that a fused activation of the file leaves over on a grid, computed as TensorFlow Lite's kernels do: the zero
// point and the quotient in float32, rounded half away from zero.
func limitsOf(activation int, e *lower.Encoding) (lo, hi int32) {
	lo, hi = e.QMin, e.QMax
	code := func(x float32) int32 { return e.ZeroPoint + int32(qmath.HalfAwayFromZero.Round(float64(x/e.Scale))) }
	switch activation {
	case tf.Relu:
		lo = max(lo, code(0))
	case tf.Relu6:
		lo, hi = max(lo, code(0)), min(hi, code(6))
	case tf.ReluN1To1:
		lo, hi = max(lo, code(-1)), min(hi, code(1))
	}
	return lo, hi
}

// activation is the fused activation that limits codes of e to [lo, hi]; like is the one that the graph has, which is preferred to another
// with the same codes.
func activation(e *lower.Encoding, lo, hi int32, like int) (int, bool) {
	for _, a := range []int{like, tf.NoActivation, tf.Relu, tf.Relu6, tf.ReluN1To1} {
		if l, h := limitsOf(a, e); l == lo && h == hi {
			return a, true
		}
	}
	return 0, false
}

// like is the activation that limits real numbers to [lo, hi], none if there is no such.
func like(lo, hi float32) int {
	switch {
	case lo == 0 && math.IsInf(float64(hi), 1):
		return tf.Relu
	case lo == 0 && hi == 6:
		return tf.Relu6
	case lo == -1 && hi == 1:
		return tf.ReluN1To1
	}
	return tf.NoActivation
}

// limited lets emit write an operator into a tensor for v with a fused activation (a number of TensorFlow Lite's, or nothing if the
// operator has none), and limits the codes by MAXIMUM and MINIMUM where no activation does. Floats have the activation prefer.
func (b *builder) limited(v *value, perm []int, lo, hi int32, prefer int, fuses bool, emit func(out, activation int)) {
	a, ok := prefer, true
	if v.enc != nil {
		if a, ok = activation(v.enc, lo, hi, prefer); !fuses && a != tf.NoActivation {
			l, h := limitsOf(tf.NoActivation, v.enc)
			a, ok = tf.NoActivation, l == lo && h == hi
		}
	}
	if ok {
		emit(b.make(v, perm), a)
		return
	}
	i := b.temporary(v, "unlimited", permuted(v.shape, perm), v.enc)
	emit(i, tf.NoActivation)
	b.between(v, perm, i, lo, hi)
}

// between writes MAXIMUM and MINIMUM of the codes of tensor i into a tensor for v.
func (b *builder) between(v *value, perm []int, i int, lo, hi int32) {
	low, high := v.enc.QMin, v.enc.QMax
	if lo > low && hi < high {
		t := b.temporary(v, "above", permuted(v.shape, perm), v.enc)
		b.op("MAXIMUM", []int{i, b.code(v, lo)}, []int{t})
		i, lo = t, low
	}
	if out := b.make(v, perm); lo > low {
		b.op("MAXIMUM", []int{i, b.code(v, lo)}, []int{out})
	} else {
		b.op("MINIMUM", []int{i, b.code(v, hi)}, []int{out})
	}
}

// code is a constant with one code of the grid of v.
func (b *builder) code(v *value, q int32) int {
	data := []byte{byte(q)}
	if v.typ == tf.Int16 {
		data = append(data, byte(q>>8))
	}
	return b.tensor(tf.Tensor{Name: v.name + "/limit", Type: v.typ, Shape: []int{1}, Data: data, Quantization: quantization(v.enc)})
}

// fold is a window over two axes.
type fold struct {
	kernel, stride, dilation []int
	padding                  int
}

// options are the stride and padding as options of the file.
func (w *fold) options(more ...any) []any {
	return append([]any{"padding", w.padding, "stride_h", w.stride[0], "stride_w", w.stride[1]}, more...)
}

// pads brings begin and end of a window's padding to SAME or VALID, to prefer where both are right; ok is false where the input has to be
// padded first: by begin and end.
func pads(in, out, kernel, stride, dilation, begin []int, prefer int) (padding int, ok bool, end []int) {
	same, valid := true, true
	end = make([]int, len(in))
	for i := range in {
		extent := (kernel[i]-1)*dilation[i] + 1
		total := max((out[i]-1)*stride[i]+extent-in[i], 0)
		same = same && out[i] == (in[i]+stride[i]-1)/stride[i] && begin[i] == total/2
		valid = valid && begin[i] == 0 && in[i] >= extent && out[i] == (in[i]-extent)/stride[i]+1
		end[i] = max((out[i]-1)*stride[i]+extent-in[i]-begin[i], 0)
	}
	switch {
	case valid && (!same || prefer == tf.Valid):
		return tf.Valid, true, end
	case same:
		return tf.Same, true, end
	}
	return tf.Valid, false, end
}

// window prepares the input of a window: channels last, two spatial axes, padded where neither SAME nor VALID says how. fill is the code
// that is put around; nil: the zero point. counts: an average over the window counts padding, so that SAME, which does not,
// cannot stand for it.
func (b *builder) window(v *value, kernel, stride, dilation, begin, out []int, fill *int32, counts, sums bool) (x int, w *fold) {
	rank := len(v.shape)
	x = b.read(v, last(rank))
	shape := permuted(v.shape, last(rank))
	w = &fold{kernel: kernel, stride: stride, dilation: dilation}
	in := v.shape[2:]
	if rank == 3 { // one spatial axis: the second of two
		w.kernel, w.stride, w.dilation = two(kernel, 1), two(stride, 1), two(dilation, 1)
		begin, out, in = two(begin, 0), two(out, 1), two(in, 1)
		shape = []int{shape[0], 1, shape[1], shape[2]}
		i := b.temporary(v, "plane", shape, v.enc)
		b.reshape(x, i)
		x = i
	}
	var ok bool
	var end []int
	prefer := tf.Valid // pools; convolutions are SAME in files of others
	if sums {
		prefer = tf.Same
	}
	w.padding, ok, end = pads(in, out, w.kernel, w.stride, w.dilation, begin, prefer)
	if counts && w.padding == tf.Same {
		w.padding, ok = tf.Valid, false
	}
	if ok {
		return x, w
	}
	padded := []int{shape[0], shape[1] + begin[0] + end[0], shape[2] + begin[1] + end[1], shape[3]}
	i := b.temporary(v, "padded", padded, v.enc)
	list := b.list("paddings", []int{0, 0, begin[0], end[0], begin[1], end[1], 0, 0}, 4, 2)
	switch {
	case fill == nil:
		b.op("PAD", []int{x, list}, []int{i})
	case v.enc != nil:
		b.op("PADV2", []int{x, list, b.code(v, *fill)}, []int{i})
	default:
		b.op("PADV2", []int{x, list, b.number(v.name+"/fill", float32(math.Inf(-1)))}, []int{i})
	}
	return i, w
}

func two(list []int, first int) []int { return append([]int{first}, list...) }

// slid lets emit write an operator over windows into v, whose tensor is channels last; with one spatial axis it takes the second away.
func (b *builder) slid(v *value, lo, hi int32, prefer int, emit func(out, activation int)) {
	rank := len(v.shape)
	b.limited(v, last(rank), lo, hi, prefer, true, func(out, a int) {
		if rank == 4 {
			emit(out, a)
			return
		}
		s := permuted(v.shape, last(rank))
		i := b.temporary(v, "plane", slices.Insert(slices.Clone(s), 1, 1), v.enc)
		emit(i, a)
		b.reshape(i, out)
	})
}
