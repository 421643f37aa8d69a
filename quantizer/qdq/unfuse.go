package qdq

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// operand is a tensor of integers among the inputs of an operator, with its scale and zero point.
type operand struct{ x, scale, zero int }

// fused describes an operator on integers as what it is made of.
type fused struct {
	op string // of the float operator
	in []operand
	// weights is the operand, counted from 0, whose scales lie along the axis of output channels; 0: none.
	weights int
	bias    int // the input that is an int32 bias of scale x * w; 0: none
	out     [2]int
	attrs   []string // that the float operator has too
	// rest is the index from which on operands repeat (Concat), 0: they do not.
	rest int
}

var pair2 = []operand{{0, 1, 2}, {3, 4, 5}}

var window = []string{"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"}

// fusedOps lists the operators that are written as Q/DQ. Add one here; graph.Spec has to know it too.
var fusedOps = map[string]fused{
	"QLinearConv": {op: "Conv", in: pair2, weights: 1, bias: 8, out: [2]int{6, 7},
		attrs: []string{"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}},
	"QLinearMatMul":            {op: "MatMul", in: pair2, weights: 1, out: [2]int{6, 7}},
	"QGemm":                    {op: "Gemm", in: pair2, weights: 1, bias: 6, out: [2]int{7, 8}, attrs: []string{"alpha", "transA", "transB"}},
	"QLinearAdd":               {op: "Add", in: pair2, out: [2]int{6, 7}},
	"QLinearMul":               {op: "Mul", in: pair2, out: [2]int{6, 7}},
	"QLinearAveragePool":       {op: "AveragePool", in: pair2[:1], out: [2]int{3, 4}, attrs: window},
	"QLinearGlobalAveragePool": {op: "GlobalAveragePool", in: pair2[:1], out: [2]int{3, 4}},
	"QLinearSigmoid":           {op: "Sigmoid", in: pair2[:1], out: [2]int{3, 4}},
	"QLinearLeakyRelu":         {op: "LeakyRelu", in: pair2[:1], out: [2]int{3, 4}, attrs: []string{"alpha"}},
	"QLinearSoftmax":           {op: "Softmax", in: pair2[:1], out: [2]int{3, 4}, attrs: []string{"axis"}},
	"QLinearConcat":            {op: "Concat", rest: 2, out: [2]int{0, 1}, attrs: []string{"axis"}},
}

// unfuse writes operators on integers as float operators between DequantizeLinear and QuantizeLinear.
func (r *reader) unfuse() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	for _, id := range order {
		n := r.g.Node(id)
		f, ok := fusedOps[n.Op]
		if !ok || !standard(n.Domain) {
			continue
		}
		if err := r.unfuseNode(id, f); err != nil {
			return r.g.ErrorAt(stage, id, err)
		}
	}
	return nil
}

func (r *reader) unfuseNode(id graph.NodeID, f fused) error {
	n := *r.g.Node(id)
	if n.AttrInt("channels_last", 0) != 0 {
		return errors.New("channels_last: only channels first")
	}
	if n.Op == "QLinearSoftmax" && r.g.Opset("") < 13 != (n.AttrInt("opset", 13) < 13) {
		return fmt.Errorf("it follows opset %d in a model of opset %d", n.AttrInt("opset", 13), r.g.Opset(""))
	}
	in := f.in
	if f.rest > 0 {
		for i := f.rest; i+2 < len(n.Inputs); i += 3 {
			in = append(in, operand{i, i + 1, i + 2})
		}
	}
	float := graph.Node{Op: f.op}
	for _, name := range f.attrs {
		if a := n.Attr(name); a != nil {
			float.Attrs = append(float.Attrs, *a)
		}
	}
	for k, o := range in {
		x, err := r.dequantizer(n.Input(o.x), n.Input(o.scale), n.Input(o.zero), r.weightAxis(&n, f, k))
		if err != nil {
			return fmt.Errorf("input %d: %w", o.x, err)
		}
		float.Inputs = append(float.Inputs, x)
	}
	if b := n.Input(f.bias); f.bias > 0 && b != graph.NoValue {
		scale, err := r.biasScale(&n, in)
		if err != nil {
			return err
		}
		x, err := r.dequantizer(b, scale, graph.NoValue, 0)
		if err != nil {
			return fmt.Errorf("input %d: %w", f.bias, err)
		}
		float.Inputs = append(float.Inputs, x)
	}
	y := n.Outputs[0]
	shape := r.g.Value(y).Shape
	scale, zero := n.Input(f.out[0]), n.Input(f.out[1])
	name := n.Name
	r.g.Outputs = append(r.g.Outputs, y) // an output is not removed with its node
	r.g.RemoveNode(id)
	r.g.Outputs = r.g.Outputs[:len(r.g.Outputs)-1]
	float.Name = name
	if scale == graph.NoValue { // QGemm without requantization
		r.g.Value(y).DType = tensor.Float32
		float.Outputs = []graph.ValueID{y}
		_, err := r.g.AddNode(float)
		return err
	}
	real, err := r.value(r.g.Value(y).Name+"_real", tensor.Float32, shape)
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
func (r *reader) weightAxis(n *graph.Node, f fused, k int) int64 {
	switch {
	case f.weights == 0 || k != f.weights:
		return 1
	case f.op == "Conv", f.op == "Gemm" && n.Gemm().TransB:
		return 0
	}
	return -1
}

// dequantizer adds a DequantizeLinear and returns what it computes.
func (r *reader) dequantizer(x, scale, zero graph.ValueID, axis int64) (graph.ValueID, error) {
	if x == graph.NoValue || scale == graph.NoValue {
		return graph.NoValue, errors.New("the tensor or its scale is missing")
	}
	v, err := r.value(r.g.Value(x).Name+"_real", tensor.Float32, r.g.Value(x).Shape)
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

func (r *reader) value(name string, d tensor.DType, shape graph.Shape) (graph.ValueID, error) {
	return r.g.AddValue(graph.Value{Name: r.g.FreshName(name), DType: d, Shape: shape})
}

// biasScale returns a constant with the scales of the accumulator of a sum of products.
func (r *reader) biasScale(n *graph.Node, in []operand) (graph.ValueID, error) {
	x, w := r.g.Const(n.Input(in[0].scale)), r.g.Const(n.Input(in[1].scale))
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
