package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// RunTimePair adds a Q and a DQ to g, between from and to, whose scale is computed from the tensor itself as qmath.RunTimeScale does:
// DynamicQuantizeLinear for uint8 per tensor, else operators for
//
//	scale = max(max|x| / QMax, smallest normal number)                                      symmetric
//	scale = max((hi - lo) / (QMax - QMin), ...), zero point = round(clip(QMin - lo/scale))  asymmetric, hi >= 0 >= lo
//
// over all of the tensor, or over the last axis, whose elements are then one block (opset 21). d is the type of the codes, of which c takes
// the whole range; new nodes and values are named after name.
func RunTimePair(g *graph.Graph, name string, from graph.ValueID, c *tqc.Config, d tensor.DType, to graph.ValueID) error {
	r := &runTime{NodeWriter: graph.NodeWriter{G: g, Name: name}}
	if d == tensor.Uint8 && c.Policy.Has(tqc.PerTensor) && c.Policy.Has(tqc.Asymmetric) {
		q := r.Value("QuantizeLinear", d, g.Value(from).Shape)
		scale, zero := r.Value("scale", tensor.Float32, graph.Shape{}), r.Value("zero_point", d, graph.Shape{})
		r.Add("DynamicQuantizeLinear", []graph.ValueID{from}, q, scale, zero)
		r.Add("DequantizeLinear", []graph.ValueID{q, scale, zero}, to)
		return r.Err
	}
	var attrs []graph.Attr
	if c.Policy.Has(tqc.PerToken) {
		shape := g.Value(from).Shape
		if len(shape) == 0 || !shape[len(shape)-1].Known() {
			return fmt.Errorf("scales of tokens of %s: the length of the last axis is not known", shape)
		}
		last := len(shape) - 1
		attrs = []graph.Attr{graph.Int("axis", int64(last)), graph.Int("block_size", shape[last].N)}
		r.axes = []int64{int64(last)}
	}
	scale, zero := r.symmetric(from, c), graph.NoValue
	switch {
	case c.Policy.Has(tqc.Asymmetric):
		scale, zero = r.asymmetric(from, c, d)
	case r.axes == nil:
		zero = g.AddConst(name+"_zero_point", tensor.New(d))
	}
	g.Value(scale).Shape = graph.Shape{}
	if r.axes != nil {
		shape := g.Value(from).Shape
		g.Value(scale).Shape = append(shape[:len(shape)-1:len(shape)-1], graph.Dim{N: 1})
	}
	q := r.Value("QuantizeLinear", d, g.Value(from).Shape)
	in, back := []graph.ValueID{from, scale}, []graph.ValueID{q, scale}
	if zero != graph.NoValue {
		in, back = append(in, zero), append(back, zero)
	}
	r.Attrs = attrs
	if zero == graph.NoValue {
		r.Attrs = append(attrs[:len(attrs):len(attrs)], graph.Int("output_dtype", int64(d)))
	}
	r.Add("QuantizeLinear", in, q)
	r.Attrs = attrs
	r.Add("DequantizeLinear", back, to)
	return r.Err
}

// CodesOfRows makes what a .tflite file computes of float data and weights of integers compute so: LSTM by passes.HybridRecurrences,
// products that make codes of their data (graph.RowCodes) by a pair of rows in front of them.
func CodesOfRows(g *graph.Graph) error {
	if _, err := passes.HybridRecurrences(g); err != nil {
		return err
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		how := n.AttrInt(graph.RowCodes, 0)
		if how == 0 || n.Op == "LSTM" {
			continue
		}
		c, from := rowGrid(how).scheme(tqc.Config{}), n.Inputs[0]
		to, err := g.AddValue(graph.Value{Name: g.FreshName(n.Name + "_rows"), DType: tensor.Float32, Shape: g.Value(from).Shape})
		if err == nil {
			err = RunTimePair(g, n.Name+"_data", from, &c, tensor.Int8, to)
		}
		if err != nil {
			return g.ErrorAt("", id, err)
		}
		g.SetInput(id, 0, to)
	}
	return nil
}

// runTime adds the nodes of one scale.
type runTime struct {
	graph.NodeWriter
	axes []int64 // reduced over; nil: all
}

func (r *runTime) number(x float32) graph.ValueID {
	t := tensor.New(tensor.Float32)
	t.F32()[0] = x
	return r.G.AddConst(r.Name+"_number", t)
}

// reduced adds ReduceMax or ReduceMin in the form of the graph's opset, which may be raised later.
func (r *runTime) reduced(op string, x graph.ValueID) graph.ValueID {
	in := []graph.ValueID{x}
	r.Attrs = []graph.Attr{graph.Int("keepdims", 0)}
	if r.axes != nil {
		r.Attrs[0].I = 1
		if r.G.Opset("") < 18 {
			r.Attrs = append(r.Attrs, graph.Ints("axes", r.axes...))
		} else {
			in = append(in, r.G.AddConst(r.Name+"_axes", tensor.FromI64(r.axes, len(r.axes))))
		}
	}
	y := r.Of(op, in...)
	r.Attrs = nil
	return y
}

const smallestNormal = 0x1p-126

func (r *runTime) symmetric(x graph.ValueID, c *tqc.Config) graph.ValueID {
	if c.Policy.Has(tqc.Asymmetric) {
		return graph.NoValue
	}
	most := r.reduced("ReduceMax", r.Of("Abs", x))
	return r.Of("Max", r.Of("Div", most, r.number(float32(c.QMax))), r.number(smallestNormal))
}

func (r *runTime) asymmetric(x graph.ValueID, c *tqc.Config, d tensor.DType) (scale, zero graph.ValueID) {
	none := r.number(0)
	lo, hi := r.Of("Min", r.reduced("ReduceMin", x), none), r.Of("Max", r.reduced("ReduceMax", x), none)
	low, high := r.number(float32(c.QMin)), r.number(float32(c.QMax))
	width := r.Of("Div", r.Of("Sub", hi, lo), r.number(float32(int64(c.QMax)-int64(c.QMin))))
	scale = r.Of("Max", width, r.number(smallestNormal))
	at := r.Of("Round", r.Of("Clip", r.Of("Sub", low, r.Of("Div", lo, scale)), low, high))
	zero = r.Value("zero_point", d, nil)
	r.Attrs = []graph.Attr{graph.Int("to", int64(d))}
	r.Add("Cast", []graph.ValueID{at}, zero)
	r.Attrs = nil
	return scale, zero
}
