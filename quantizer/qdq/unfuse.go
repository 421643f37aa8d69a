package qdq

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Operand is a tensor of integers among the inputs of an operator, with its scale and zero point.
type Operand struct{ X, Scale, Zero int }

// QOperator describes an operator on integers, which has scales and zero points among its inputs, as what it is made of: a float operator
// between DequantizeLinear and QuantizeLinear.
type QOperator struct {
	Op string // of the float operator
	// Plain is how many inputs come first that both have as they are.
	Plain int
	In    []Operand
	// Weights is the operand, counted from 0, whose scales lie along the axis of output channels; 0: none.
	Weights int
	Bias    int // the input that is an int32 bias of scale x * w; 0: none
	Out     [2]int
	Attrs   []string // that the float operator has too
	// Rest is the index from which on operands repeat (Concat), 0: they do not.
	Rest int
}

var pair2 = []Operand{{0, 1, 2}, {3, 4, 5}}

var window = []string{"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"}

// ProductOfFloats is the MatMul of integers that gives floats: it has no scale of a result.
const ProductOfFloats = "MatMulIntegerToFloat"

// QOperators lists the operators that are read and written as Q/DQ, by type. Add one here; graph.Spec has to know it too.
var QOperators = map[string]QOperator{
	"QLinearConv": {Op: "Conv", In: pair2, Weights: 1, Bias: 8, Out: [2]int{6, 7},
		Attrs: []string{"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}},
	"QLinearMatMul":            {Op: "MatMul", In: pair2, Weights: 1, Out: [2]int{6, 7}},
	ProductOfFloats:            {Op: "MatMul", In: []Operand{{0, 2, 4}, {1, 3, 5}}, Weights: 1, Out: [2]int{7, 8}},
	"QGemm":                    {Op: "Gemm", In: pair2, Weights: 1, Bias: 6, Out: [2]int{7, 8}, Attrs: []string{"alpha", "transA", "transB"}},
	"QLinearAdd":               {Op: "Add", In: pair2, Out: [2]int{6, 7}},
	"QLinearMul":               {Op: "Mul", In: pair2, Out: [2]int{6, 7}},
	"QLinearWhere":             {Op: "Where", Plain: 1, In: []Operand{{1, 2, 3}, {4, 5, 6}}, Out: [2]int{7, 8}},
	"QLinearAveragePool":       {Op: "AveragePool", In: pair2[:1], Out: [2]int{3, 4}, Attrs: window},
	"QLinearGlobalAveragePool": {Op: "GlobalAveragePool", In: pair2[:1], Out: [2]int{3, 4}},
	"QLinearSigmoid":           {Op: "Sigmoid", In: pair2[:1], Out: [2]int{3, 4}},
	"QLinearLeakyRelu":         {Op: "LeakyRelu", In: pair2[:1], Out: [2]int{3, 4}, Attrs: []string{"alpha"}},
	"QLinearSoftmax":           {Op: "Softmax", In: pair2[:1], Out: [2]int{3, 4}, Attrs: []string{"axis"}},
	"QLinearConcat":            {Op: "Concat", Rest: 2, Out: [2]int{0, 1}, Attrs: []string{"axis"}},
}

// Operands returns the operands of an operator with so many inputs.
func (f *QOperator) Operands(inputs int) []Operand {
	in := f.In[:len(f.In):len(f.In)]
	if f.Rest > 0 {
		for i := f.Rest; i+2 < inputs; i += 3 {
			in = append(in, Operand{i, i + 1, i + 2})
		}
	}
	return in
}

// unfuse writes operators on integers as float operators between DequantizeLinear and QuantizeLinear.
func (r *reader) unfuse() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	for _, id := range order {
		n := r.g.Node(id)
		f, ok := QOperators[n.Op]
		if !ok || !standard(n.Domain) {
			continue
		}
		if err := r.unfuseNode(id, f); err != nil {
			return r.g.ErrorAt(stage, id, err)
		}
	}
	return nil
}

func (r *reader) unfuseNode(id graph.NodeID, f QOperator) error {
	n := *r.g.Node(id)
	if n.AttrInt("channels_last", 0) != 0 {
		return errors.New("channels_last: only channels first")
	}
	if n.Op == ProductOfFloats && n.Input(6) != graph.NoValue {
		return errors.New("its bias is of floats; export the model in Q/DQ form")
	}
	if n.Op == "QLinearSoftmax" && r.g.Opset("") < 13 != (n.AttrInt("opset", 13) < 13) {
		return fmt.Errorf("it follows opset %d in a model of opset %d", n.AttrInt("opset", 13), r.g.Opset(""))
	}
	in := f.Operands(len(n.Inputs))
	float := graph.Node{Op: f.Op, Inputs: append([]graph.ValueID(nil), n.Inputs[:f.Plain]...)}
	for _, name := range f.Attrs {
		if a := n.Attr(name); a != nil {
			float.Attrs = append(float.Attrs, *a)
		}
	}
	for k, o := range in {
		x, err := r.dequantizer(n.Input(o.X), n.Input(o.Scale), n.Input(o.Zero), r.weightAxis(&n, f, k))
		if err != nil {
			return fmt.Errorf("input %d: %w", o.X, err)
		}
		float.Inputs = append(float.Inputs, x)
	}
	if b := n.Input(f.Bias); f.Bias > 0 && b != graph.NoValue {
		scale, err := r.biasScale(&n, in)
		if err != nil {
			return err
		}
		axis := max(len(r.g.Value(b).Shape)-1, 0) // of a bias of the rank of the result the last
		x, err := r.dequantizer(b, scale, graph.NoValue, int64(axis))
		if err != nil {
			return fmt.Errorf("input %d: %w", f.Bias, err)
		}
		float.Inputs = append(float.Inputs, x)
	}
	y := n.Outputs[0]
	shape := r.g.Value(y).Shape
	scale, zero := n.Input(f.Out[0]), n.Input(f.Out[1])
	name := n.Name
	r.g.Outputs = append(r.g.Outputs, y) // an output is not removed with its node
	r.g.RemoveNode(id)
	r.g.Outputs = r.g.Outputs[:len(r.g.Outputs)-1]
	float.Name = name
	if scale == graph.NoValue { // it is not quantized again
		r.g.Value(y).DType = tensor.Float32
		float.Outputs = []graph.ValueID{y}
		_, err := r.g.AddNode(float)
		return err
	}
	real, err := r.value(r.g.Value(y).Name+"_real", shape)
	if err != nil {
		return err
	}
	float.Outputs = []graph.ValueID{real}
	if _, err := r.g.AddNode(float); err != nil {
		return err
	}
	q := graph.Node{Op: "QuantizeLinear", Inputs: []graph.ValueID{real, scale}, Outputs: []graph.ValueID{y}}
	if zero != graph.NoValue {
		q.Inputs = append(q.Inputs, zero)
	}
	_, err = r.g.AddNode(q)
	return err
}

// weightAxis is the axis along which the scales of operand k lie if it has several.
func (r *reader) weightAxis(n *graph.Node, f QOperator, k int) int64 {
	switch {
	case f.Weights == 0 || k != f.Weights:
		return 1
	case f.Op == "Conv", f.Op == "Gemm" && n.Gemm().TransB:
		return 0
	}
	return -1
}

// dequantizer adds a DequantizeLinear and returns what it computes.
func (r *reader) dequantizer(x, scale, zero graph.ValueID, axis int64) (graph.ValueID, error) {
	if x == graph.NoValue || scale == graph.NoValue {
		return graph.NoValue, errors.New("the tensor or its scale is missing")
	}
	v, err := r.value(r.g.Value(x).Name+"_real", r.g.Value(x).Shape)
	if err != nil {
		return v, err
	}
	n := graph.Node{Op: "DequantizeLinear", Inputs: []graph.ValueID{x, scale}, Outputs: []graph.ValueID{v}}
	if zero != graph.NoValue {
		n.Inputs = append(n.Inputs, zero)
	}
	if s := r.g.Const(scale); s != nil && s.Len() > 1 {
		n.Attrs = []graph.Attr{graph.Int("axis", axis)}
	}
	_, err = r.g.AddNode(n)
	return v, err
}

// value adds a tensor of float32.
func (r *reader) value(name string, shape graph.Shape) (graph.ValueID, error) {
	return r.g.AddValue(graph.Value{Name: r.g.FreshName(name), DType: tensor.Float32, Shape: shape})
}

// biasScale returns a constant with the scales of the accumulator of a sum of products.
func (r *reader) biasScale(n *graph.Node, in []Operand) (graph.ValueID, error) {
	x, w := r.g.Const(n.Input(in[0].Scale)), r.g.Const(n.Input(in[1].Scale))
	if x == nil || w == nil || x.DType != tensor.Float32 || w.DType != tensor.Float32 || x.Len() != 1 || w.Len() == 0 {
		return graph.NoValue, errors.New("it has a bias, but no constant scales of float32")
	}
	alpha := float32(1)
	if n.Op == "QGemm" {
		alpha = n.Alpha()
	}
	out := tensor.New(tensor.Float32, w.Len())
	for i, s := range w.F32() {
		out.F32()[i] = qmath.BiasScale(x.F32()[0], float32(s*alpha))
	}
	if len(out.Data.([]float32)) == 1 {
		out.Shape = []int{}
	}
	return r.g.AddConst(n.Name+"_bias_scale", out), nil
}
