package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// runTimePair writes a Q and a DQ whose scale is computed from the tensor itself, as qmath.RunTimeScale does: DynamicQuantizeLinear for
// uint8 per tensor, else operators for
//
//	scale = max(max|x| / QMax, smallest normal number)                                      symmetric
//	scale = max((hi - lo) / (QMax - QMin), ...), zero point = round(clip(QMin - lo/scale))  asymmetric, hi >= 0 >= lo
//
// over all of the tensor, or over the last axis, whose elements are then one block. Symmetric unsigned integers, whose zero point is the
// middle, are an error.
func (b *builder) runTimePair(name string, from graph.ValueID, slot tqc.SlotID, to graph.ValueID) error {
	c := &b.set.Slot(slot).Config
	if b.g.Const(from) != nil || c.Policy.Has(tqc.PerGroup) || c.Policy.Has(tqc.PowerOf2) {
		return fmt.Errorf("policy %q has no Q/DQ form", c.Policy)
	}
	if c.Integer() && c.Policy.Has(tqc.Symmetric) && !c.Signed() {
		return fmt.Errorf("symmetric %s with scales of run time has no Q/DQ form: int%d has, and asymmetric %s", c.FormatName(), c.Bits,
			c.FormatName())
	}
	d, err := b.dtype(slot)
	if err != nil {
		return err
	}
	s := storageOf(d)
	if c.Rounding != qmath.HalfEven || c.QMax != s.high || c.QMin != s.low && !(c.Policy.Has(tqc.Symmetric) && c.QMin == s.low+1) {
		return fmt.Errorf("rounding %s, range %d to %d: QuantizeLinear rounds half to even and clips %s to %d and %d", c.Rounding, c.QMin, c.QMax,
			d, s.low, s.high)
	}
	r := &runTime{b: b, name: name}
	if d == tensor.Uint8 && c.Policy.Has(tqc.PerTensor) && c.Policy.Has(tqc.Asymmetric) {
		q := r.value("QuantizeLinear", d, b.g.Value(from).Shape)
		scale, zero := r.value("scale", tensor.Float32, graph.Shape{}), r.value("zero_point", d, graph.Shape{})
		r.add("DynamicQuantizeLinear", []graph.ValueID{from}, q, scale, zero)
		r.add(dequantizeLinear, []graph.ValueID{q, scale, zero}, to)
		return r.err
	}
	var attrs []graph.Attr
	if c.Policy.Has(tqc.PerToken) {
		shape := b.g.Value(from).Shape
		if len(shape) == 0 || !shape[len(shape)-1].Known() {
			return fmt.Errorf("scales of tokens of %s: the length of the last axis is not known", shape)
		}
		last := len(shape) - 1
		attrs = []graph.Attr{graph.Int("axis", int64(last)), graph.Int("block_size", shape[last].N)}
		r.axes = []int64{int64(last)}
		b.need = max(b.need, opsetBlocks)
	}
	scale, zero := r.symmetric(from, c), graph.NoValue
	switch {
	case c.Policy.Has(tqc.Asymmetric):
		scale, zero = r.asymmetric(from, c, d)
	case r.axes == nil:
		zero = b.g.AddConst(name+"_zero_point", tensor.New(d))
	}
	q := r.value("QuantizeLinear", d, b.g.Value(from).Shape)
	in, back := []graph.ValueID{from, scale}, []graph.ValueID{q, scale}
	if zero != graph.NoValue {
		in, back = append(in, zero), append(back, zero)
	}
	r.attrs = attrs
	if zero == graph.NoValue {
		r.attrs = append(attrs[:len(attrs):len(attrs)], graph.Int("output_dtype", int64(d)))
	}
	r.add(quantizeLinear, in, q)
	r.attrs = attrs
	r.add(dequantizeLinear, back, to)
	return r.err
}

// runTime adds the nodes of one scale.
type runTime struct {
	b     *builder
	name  string
	axes  []int64 // reduced over; nil: all
	attrs []graph.Attr
	err   error
}

func (r *runTime) value(what string, d tensor.DType, shape graph.Shape) graph.ValueID {
	v, err := r.b.g.AddValue(graph.Value{Name: r.b.g.FreshName(r.name + "_" + what), DType: d, Shape: shape})
	if r.err == nil {
		r.err = err
	}
	return v
}

func (r *runTime) add(op string, in []graph.ValueID, out ...graph.ValueID) {
	if r.err == nil {
		_, r.err = r.b.g.AddNode(graph.Node{Name: r.b.g.FreshName(r.name + "_" + op + "_node"), Op: op, Attrs: r.attrs, Inputs: in, Outputs: out})
	}
}

// of adds a float operator and returns its output.
func (r *runTime) of(op string, in ...graph.ValueID) graph.ValueID {
	y := r.value(op, tensor.Float32, nil)
	r.add(op, in, y)
	return y
}

func (r *runTime) number(x float32) graph.ValueID {
	t := tensor.New(tensor.Float32)
	t.F32()[0] = x
	return r.b.g.AddConst(r.name+"_number", t)
}

// reduced adds ReduceMax or ReduceMin in the form of the graph's opset, which may be raised later.
func (r *runTime) reduced(op string, x graph.ValueID) graph.ValueID {
	in := []graph.ValueID{x}
	r.attrs = []graph.Attr{graph.Int("keepdims", 0)}
	if r.axes != nil {
		r.attrs[0].I = 1
		if r.b.g.Opset("") < 18 {
			r.attrs = append(r.attrs, graph.Ints("axes", r.axes...))
		} else {
			in = append(in, r.b.g.AddConst(r.name+"_axes", tensor.FromI64(r.axes, len(r.axes))))
		}
	}
	y := r.of(op, in...)
	r.attrs = nil
	return y
}

const smallestNormal = 0x1p-126

func (r *runTime) symmetric(x graph.ValueID, c *tqc.Config) graph.ValueID {
	if c.Policy.Has(tqc.Asymmetric) {
		return graph.NoValue
	}
	most := r.reduced("ReduceMax", r.of("Abs", x))
	return r.of("Max", r.of("Div", most, r.number(float32(c.QMax))), r.number(smallestNormal))
}

func (r *runTime) asymmetric(x graph.ValueID, c *tqc.Config, d tensor.DType) (scale, zero graph.ValueID) {
	none := r.number(0)
	lo, hi := r.of("Min", r.reduced("ReduceMin", x), none), r.of("Max", r.reduced("ReduceMax", x), none)
	low, high := r.number(float32(c.QMin)), r.number(float32(c.QMax))
	width := r.of("Div", r.of("Sub", hi, lo), r.number(float32(int64(c.QMax)-int64(c.QMin))))
	scale = r.of("Max", width, r.number(smallestNormal))
	at := r.of("Round", r.of("Clip", r.of("Sub", low, r.of("Div", lo, scale)), low, high))
	zero = r.value("zero_point", d, nil)
	r.attrs = []graph.Attr{graph.Int("to", int64(d))}
	r.add("Cast", []graph.ValueID{at}, zero)
	r.attrs = nil
	return scale, zero
}
