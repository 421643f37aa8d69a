package lift

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
)

// reads reads inputs in an order.
func (l *lifter) reads(o order, inputs ...int) ([]graph.ValueID, error) {
	out := make([]graph.ValueID, len(inputs))
	for i, id := range inputs {
		var err error
		if out[i], err = l.read(id, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// elementwise lifts an operator whose inputs are broadcast.
func (l *lifter) elementwise(op string, attrs ...graph.Attr) error {
	o := l.order(l.op.Inputs...)
	if len(l.shape(l.op.Outputs[0])) != 4 {
		o = plain
	}
	if slices.Min(l.op.Inputs) < 0 {
		return errNoForm
	}
	for _, id := range l.op.Inputs { // of fewer axes, and computed: in the file's order alone
		if t := &l.s.Tensors[id]; o == first && t.Data == nil && len(t.Shape) != 4 && len(t.Shape) > 0 {
			o = plain
		}
	}
	in := make([]graph.ValueID, len(l.op.Inputs))
	for i, id := range l.op.Inputs {
		var err error
		if t := &l.s.Tensors[id]; o == first && t.Data != nil && len(t.Shape) > 0 && len(t.Shape) < 4 {
			in[i], err = l.widened(t)
		} else {
			in[i], err = l.read(id, o)
		}
		if err != nil {
			return err
		}
	}
	return l.result(0, o, op, attrs, in...)
}

// widened adds a constant of fewer than four axes as it is broadcast to images with their channels first.
func (l *lifter) widened(t *tflite.Tensor) (graph.ValueID, error) {
	c, err := l.value(t)
	if err != nil {
		return graph.NoValue, err
	}
	wide := slices.Concat([]int{1, 1, 1, 1}[len(t.Shape):], t.Shape)
	c = lastFirst(&tensor.Tensor{DType: c.DType, Shape: wide, Data: c.Data}, 1, turned(wide)...)
	channel := 0
	if t.Quantization.Quantized() {
		channel = axis(t.Quantization.Axis+4-len(t.Shape), 4, first)
	}
	return l.dequantized(t, c, channel)
}

func clip(lo, hi float32) func(*lifter) error {
	return func(l *lifter) error {
		o := l.order(l.in(0))
		x, err := l.read(l.in(0), o)
		if err != nil {
			return err
		}
		return l.result(0, o, "Clip", nil, x, l.g.AddConst("min", tensor.FromF32([]float32{lo})),
			l.g.AddConst("max", tensor.FromF32([]float32{hi})))
	}
}

func (l *lifter) leaky() error {
	return l.elementwise("LeakyRelu", graph.Float("alpha", l.op.Options.Float("alpha")))
}

func (l *lifter) gelu() error {
	how := "none"
	if l.op.Options.Bool("approximate") {
		how = "tanh"
	}
	return l.elementwise("Gelu", graph.Str("approximate", how))
}

// composed is two operators of ONNX, one behind the other.
func composed(inner, outer string) func(*lifter) error {
	return func(l *lifter) error {
		o := l.order(l.in(0))
		x, err := l.read(l.in(0), o)
		if err != nil {
			return err
		}
		t := &l.s.Tensors[l.op.Outputs[0]]
		if x, err = l.node(inner, t.Name+"_"+inner, l.dtype(t), shapeIn(t, o), nil, x); err != nil {
			return err
		}
		return l.result(0, o, outer, nil, x)
	}
}

func (l *lifter) square() error {
	o := l.order(l.in(0))
	x, err := l.read(l.in(0), o)
	if err != nil {
		return err
	}
	return l.result(0, o, "Mul", nil, x, x)
}

func (l *lifter) squaredDifference() error {
	o := l.order(l.op.Inputs...)
	if l.in(1) < 0 {
		return errNoForm
	}
	if !slices.Equal(l.shape(l.in(0)), l.shape(l.in(1))) {
		o = plain
	}
	in, err := l.reads(o, l.in(0), l.in(1))
	if err != nil {
		return err
	}
	t := &l.s.Tensors[l.op.Outputs[0]]
	d, err := l.node("Sub", t.Name+"_difference", l.dtype(t), shapeIn(t, o), nil, in...)
	if err != nil {
		return err
	}
	return l.result(0, o, "Mul", nil, d, d)
}

func (l *lifter) cast() error {
	t := &l.s.Tensors[l.op.Outputs[0]]
	d, ok := types[t.Type]
	if !ok {
		return errNoForm
	}
	return l.elementwise("Cast", graph.Int("to", int64(d)))
}

// dequantize lifts DEQUANTIZE: of a constant, as of weights that are stored in half precision, it is done here.
func (l *lifter) dequantize() error {
	t, out := &l.s.Tensors[l.in(0)], &l.s.Tensors[l.op.Outputs[0]]
	if t.Data != nil && t.Type == tflite.Float16 && out.Type == tflite.Float32 {
		half, err := l.value(t)
		if err != nil {
			return err
		}
		c := *out
		c.Data = singles(tensor.Of[uint16](half))
		l.s.Tensors[l.op.Outputs[0]] = c // its readers find a constant
		return nil
	}
	return l.elementwise("Identity")
}

func (l *lifter) softmax() error {
	o, rank := l.order(l.in(0)), len(l.shape(l.in(0)))
	x, err := l.read(l.in(0), o)
	if err != nil {
		return err
	}
	last := graph.Int("axis", int64(axis(rank-1, rank, o)))
	switch l.op.Op {
	case "LOG_SOFTMAX":
		return l.result(0, o, "LogSoftmax", []graph.Attr{last}, x)
	case "L2_NORMALIZATION":
		return l.result(0, o, "LpNormalization", []graph.Attr{last, graph.Int("p", 2)}, x)
	}
	if beta := l.op.Options.Float("beta"); beta != 1 {
		return errNoForm
	}
	return l.result(0, o, "Softmax", []graph.Attr{last}, x)
}

func (l *lifter) concat() error {
	if slices.Min(l.op.Inputs) < 0 {
		return errNoForm
	}
	o, rank := l.order(l.op.Inputs...), len(l.shape(l.op.Outputs[0]))
	in, err := l.reads(o, l.op.Inputs...)
	if err != nil {
		return err
	}
	return l.result(0, o, "Concat", []graph.Attr{graph.Int("axis", int64(axis(l.op.Options.Int("axis"), rank, o)))}, in...)
}

func (l *lifter) pad() error {
	widths, err := l.constants(1)
	if err != nil {
		return err
	}
	o, rank := l.order(l.in(0)), len(l.shape(l.in(0)))
	if len(widths) != 2*rank {
		return fmt.Errorf("%d numbers of padding for %d axes", len(widths), rank)
	}
	pads := make([]int64, 2*rank)
	for a := range rank {
		pads[axis(a, rank, o)], pads[rank+axis(a, rank, o)] = widths[2*a], widths[2*a+1]
	}
	x, err := l.read(l.in(0), o)
	if err != nil {
		return err
	}
	in := []graph.ValueID{x, l.list("pads", pads)}
	var attrs []graph.Attr
	switch {
	case l.op.Op == "MIRROR_PAD" && l.op.Options.Int("mode") != 0:
		return errNoForm // symmetric: the border itself is repeated
	case l.op.Op == "MIRROR_PAD":
		attrs = []graph.Attr{graph.Str("mode", "reflect")}
	case l.op.Op == "PADV2":
		v, err := l.read(l.in(2), plain)
		if err != nil {
			return err
		}
		in = append(in, v)
	}
	return l.result(0, o, "Pad", attrs, in...)
}

// constants are the integers of a constant input; one that is computed has no form here.
func (l *lifter) constants(i int) ([]int64, error) {
	id := l.in(i)
	if id < 0 || l.s.Tensors[id].Data == nil {
		return nil, errNoForm
	}
	return l.ints(&l.s.Tensors[id])
}

// dataAndList reads input 0 in the order of the file, and the numbers of constant input 1.
func (l *lifter) dataAndList() (x graph.ValueID, list []int64, err error) {
	if list, err = l.constants(1); err == nil {
		x, err = l.read(l.in(0), plain)
	}
	return x, list, err
}

// list adds a constant vector of integers.
func (l *lifter) list(name string, x []int64) graph.ValueID {
	return l.g.AddConst(l.s.Tensors[l.op.Outputs[0]].Name+"_"+name, tensor.FromI64(x, len(x)))
}

func (l *lifter) reduce(op string) error {
	axes, err := l.constants(1)
	if err != nil {
		return err
	}
	keep := l.op.Options.Bool("keep_dims")
	o, rank := l.order(l.in(0)), len(l.shape(l.in(0)))
	reduced := make([]bool, rank)
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || a >= int64(rank) {
			return fmt.Errorf("axis %d of %d", a, rank)
		}
		reduced[a] = true
	}
	// What remains of an image with its channels first has the file's order if the channels are gone, or height and width.
	if o == first && !keep && !reduced[3] && !(reduced[1] && reduced[2]) {
		o = plain
	}
	list := []int64{}
	for a, gone := range reduced {
		if gone {
			list = append(list, int64(axis(a, rank, o)))
		}
	}
	slices.Sort(list)
	x, err := l.read(l.in(0), o)
	if err != nil {
		return err
	}
	k := int64(0)
	if keep {
		k = 1
	}
	to := o
	if !keep {
		to = plain
	}
	if len(list) == 0 { // ONNX would reduce all axes
		return l.result(0, to, "Identity", nil, x)
	}
	return l.result(0, to, op, []graph.Attr{graph.Int("keepdims", k)}, x, l.list("axes", list))
}

// flat returns the values of a tensor such that their order in memory is the file's: of an image of one pixel, or of one channel,
// any will do.
func (l *lifter) flat(id int) (graph.ValueID, error) {
	s, shape := &l.states[id], l.shape(id)
	if s.plain == graph.NoValue && s.first != graph.NoValue && len(shape) == 4 && (shape[3] == 1 || shape[1]*shape[2] == 1) {
		return s.first, nil
	}
	return l.read(id, plain)
}

// reshaped adds a reshape of a tensor, with the tensor's own pair.
func (l *lifter) reshaped(id int, name string, shape []int) (graph.ValueID, error) {
	x, err := l.flat(id)
	if err != nil {
		return x, err
	}
	t := l.s.Tensors[id]
	if t.Quantization.Quantized() && len(t.Quantization.Scale) > 1 {
		return x, fmt.Errorf("tensor %q has scales along an axis", t.Name)
	}
	if x, err = l.node("Reshape", name, l.dtype(&t), shape, asGiven(shape), x, l.list("shape", graph.Int64s(shape))); err != nil {
		return x, err
	}
	t.Shape = shape
	return l.quantized(x, &t, plain)
}

func (l *lifter) argMax() error {
	x, a, err := l.dataAndList()
	if err != nil {
		return err
	}
	if len(a) != 1 {
		return errNoForm
	}
	t := &l.s.Tensors[l.op.Outputs[0]]
	op := map[string]string{"ARG_MAX": "ArgMax", "ARG_MIN": "ArgMin"}[l.op.Op]
	return l.long(0, op, t.Shape, []graph.Attr{graph.Int("axis", a[0]), graph.Int("keepdims", 0)}, x)
}

// long lifts output k of an operator that gives numbers of 64 bits in ONNX.
func (l *lifter) long(k int, op string, shape []int, attrs []graph.Attr, x graph.ValueID) error {
	t := &l.s.Tensors[l.op.Outputs[k]]
	if t.Type == tflite.Int64 {
		return l.result(k, plain, op, attrs, x)
	}
	long, err := l.node(op, t.Name+"_long", tensor.Int64, shape, attrs, x)
	if err != nil {
		return err
	}
	return l.result(k, plain, "Cast", []graph.Attr{graph.Int("to", int64(types[t.Type]))}, long)
}

// topK lifts TOPK_V2, whose places have 32 bits.
func (l *lifter) topK() error {
	x, k, err := l.dataAndList()
	if err != nil {
		return err
	}
	if len(k) != 1 || len(l.op.Outputs) != 2 {
		return errNoForm
	}
	var out [2]graph.ValueID
	for i, id := range l.op.Outputs {
		t := &l.s.Tensors[id]
		d, name := l.dtype(t), t.Name
		if i == 1 && t.Type != tflite.Int64 {
			d, name = tensor.Int64, t.Name+"_long"
		}
		if out[i], err = l.g.AddValue(graph.Value{Name: l.g.FreshName(name), DType: d, Shape: graph.Static(t.Shape...)}); err != nil {
			return err
		}
	}
	if _, err := l.g.AddNode(graph.Node{Name: l.g.FreshName(l.s.Tensors[l.op.Outputs[0]].Name), Op: "TopK",
		Inputs:  []graph.ValueID{x, l.list("k", k)},
		Outputs: out[:]}); err != nil {
		return err
	}
	if err := l.define(l.op.Outputs[0], plain, out[0]); err != nil {
		return err
	}
	if t := &l.s.Tensors[l.op.Outputs[1]]; t.Type != tflite.Int64 {
		return l.result(1, plain, "Cast", []graph.Attr{graph.Int("to", int64(types[t.Type]))}, out[1])
	}
	return l.define(l.op.Outputs[1], plain, out[1])
}

func (l *lifter) cumSum() error {
	x, a, err := l.dataAndList()
	if err != nil {
		return err
	}
	var attrs []graph.Attr
	for _, name := range []string{"exclusive", "reverse"} {
		if l.op.Options.Bool(name) {
			attrs = append(attrs, graph.Int(name, 1))
		}
	}
	return l.result(0, plain, "CumSum", attrs, x, l.list("axis", a))
}

// sizes lifts SHAPE.
func (l *lifter) sizes() error {
	x, err := l.read(l.in(0), plain)
	if err != nil {
		return err
	}
	return l.long(0, "Shape", l.s.Tensors[l.op.Outputs[0]].Shape, nil, x)
}

// densify lifts DENSIFY of a constant, which was given its zeros when it was read.
func (l *lifter) densify() error {
	t, out := &l.s.Tensors[l.in(0)], &l.s.Tensors[l.op.Outputs[0]]
	if t.Data == nil {
		return errNoForm
	}
	c := *out
	c.Data = t.Data
	l.s.Tensors[l.op.Outputs[0]] = c // its readers find a constant
	return nil
}
