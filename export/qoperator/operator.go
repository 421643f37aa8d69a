package qoperator

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
)

// operator puts the operator on integers called name in the place of a float one between pairs.
func (f *folder) operator(id graph.NodeID, name string) error {
	n, form := f.g.Node(id), qdq.QOperators[name]
	if !f.quantized(n, &form) { // it computes with floats
		return f.matMulNBits(id)
	}
	e, err := f.behind(n.Outputs[0])
	if (n.Op == "Gemm" || n.Op == "MatMul") && f.staysFloat(n.Outputs[0]) { // it gives floats without a scale of its result
		e, err = &end{y: codes{x: n.Outputs[0], scale: graph.NoValue, zero: graph.NoValue}}, nil
		if n.Op == "MatMul" {
			name, form = qdq.ProductOfFloats, qdq.QOperators[qdq.ProductOfFloats]
		}
	}
	if err != nil {
		return err
	}
	attrs, err := f.attributes(n, name, &form)
	if err != nil {
		return err
	}
	operands := len(form.In)
	if form.Rest > 0 {
		operands = len(n.Inputs) - form.Plain
	}
	in := make([]graph.ValueID, max(form.Rest, form.Plain)+3*operands)
	for i := range in {
		in[i] = graph.NoValue
	}
	put := func(at int, v graph.ValueID) {
		for at >= len(in) {
			in = append(in, graph.NoValue)
		}
		in[at] = v
	}
	for i := range form.Plain {
		put(i, n.Inputs[i])
	}
	var first codes
	for k, o := range form.Operands(len(in)) {
		x, ok := f.of(n.Input(form.Plain + k))
		if !ok {
			return fmt.Errorf("input %d is not quantized", form.Plain+k)
		}
		if k != form.Weights || form.Weights == 0 {
			x = f.asResult(x, e.y)
		}
		if k == 0 {
			first = x
		}
		if err := f.operand(n, &form, k, x, first, e.y); err != nil {
			return fmt.Errorf("input %d: %w", form.Plain+k, err)
		}
		put(o.X, x.x)
		put(o.Scale, x.scale)
		put(o.Zero, x.zero)
	}
	if v := n.Input(graph.BiasInput); form.Bias > 0 && v != graph.NoValue {
		b, err := f.bias(n, v, in[form.In[0].Scale], in[form.In[1].Scale])
		if err != nil {
			return fmt.Errorf("input %d: %w", graph.BiasInput, err)
		}
		put(form.Bias, b)
	}
	if e.y.scale != graph.NoValue {
		put(form.Out[0], e.y.scale)
		put(form.Out[1], e.y.zero)
	}
	whole := graph.Node{Name: n.Name, Op: name, Attrs: attrs, Inputs: in}
	if graph.Spec("", name) == nil {
		whole.Domain, f.contrib = microsoft, true
	}
	return f.finish(id, whole, e)
}

// asResult gives a constant of int8 the type of a result of uint8, codes and zero point by 128 higher: a constant on the left of a product
// has the type of weights, and these operators have one for the left and the result.
func (f *folder) asResult(x, y codes) codes {
	c, zero := f.g.Const(x.x), f.g.Const(x.zero)
	if y.scale == graph.NoValue || f.dtype(y) != tensor.Uint8 || f.dtype(x) != tensor.Int8 || c == nil || zero == nil {
		return x
	}
	higher := func(of graph.ValueID, t *tensor.Tensor) graph.ValueID {
		list := slices.Clone(t.ToRowMajor().Integers())
		for i := range list {
			list[i] += 128
		}
		return f.g.AddConst(f.g.FreshName(f.g.Value(of).Name+"_uint8"), tensor.New(tensor.Uint8, t.Shape...).WithIntegers(list))
	}
	x.x, x.zero = higher(x.x, c), higher(x.zero, zero)
	return x
}

// quantized reports whether any operand of a node comes from a DequantizeLinear; a node without one computes with floats.
func (f *folder) quantized(n *graph.Node, form *qdq.QOperator) bool {
	for i := form.Plain; i < len(n.Inputs); i++ {
		if _, ok := f.of(n.Inputs[i]); ok && !(form.Weights > 0 && i >= form.Weights) {
			return true
		}
	}
	return false
}

// attributes returns those of the operator on integers.
func (f *folder) attributes(n *graph.Node, name string, form *qdq.QOperator) (attrs []graph.Attr, err error) {
	for _, a := range n.Attrs {
		switch {
		case n.Op == "AveragePool" && a.Name == "dilations":
			if slices.ContainsFunc(a.Ints, func(d int64) bool { return d != 1 }) {
				return nil, fmt.Errorf("%s has no dilations", name)
			}
		case slices.Contains(form.Attrs, a.Name):
			attrs = append(attrs, a)
		case a.Name == "beta" && (a.F == 1 || n.Input(graph.BiasInput) == graph.NoValue):
		default:
			return nil, fmt.Errorf("%s has no attribute %s", name, a.Name)
		}
	}
	if n.Op == "Softmax" { // it has to say whose meaning of the axis it has
		attrs = append(attrs, graph.Int("opset", min(f.g.Opset(""), softmaxOpset)))
	}
	return attrs, nil
}

// softmaxOpset is the last opset that changed Softmax.
const softmaxOpset = 13

// operand checks what kernels on integers want of operand k, x: types, one scale, or those of weights along the output channels with one
// zero point for all. first is operand 0, y the result.
func (f *folder) operand(n *graph.Node, form *qdq.QOperator, k int, x, first, y codes) error {
	d := f.dtype(x)
	isWeight := form.Weights > 0 && k == form.Weights
	switch _, ok := limits[d]; {
	case !ok:
		return fmt.Errorf("codes of type %s: %s has uint8 and int8", d, forms[n.Op])
	case y.scale != graph.NoValue && f.dtype(y) != f.dtype(first):
		return fmt.Errorf("its type is %s, that of the result %s: %s has one type", f.dtype(first), f.dtype(y), forms[n.Op])
	case !isWeight && d != f.dtype(first):
		return fmt.Errorf("its type is %s, that of input 0 %s: %s has one type", d, f.dtype(first), forms[n.Op])
	case isWeight && d == tensor.Uint8 && f.dtype(first) == tensor.Int8:
		return fmt.Errorf("weights of uint8 with int8: %s has no such kernel", forms[n.Op])
	case x.dq.AttrInt("block_size", 0) != 0:
		return errors.New("scales of groups")
	}
	scale, zero := f.g.Const(x.scale), f.g.Const(x.zero)
	if scale == nil || zero == nil || scale.DType != tensor.Float32 {
		return errors.New("scale and zero point are computed at run time")
	}
	if scale.Len() == 1 {
		return nil
	}
	rank := len(f.g.Value(x.x).Shape)
	axis, ok := graph.OutAxis(n, rank)
	at, valid := graph.Axis(x.dq.Axis(), rank)
	switch {
	case !isWeight || !ok || !valid || at != axis || n.Op == "MatMul" && rank != 2:
		return fmt.Errorf("%d scales along axis %d", scale.Len(), x.dq.Axis())
	case slices.ContainsFunc(zero.Integers(), func(z int32) bool { return z != zero.Integers()[0] }):
		return fmt.Errorf("zero points that differ by channel: %s has one", forms[n.Op])
	}
	return nil
}

// bias returns the int32 codes of a bias, whose scales have to be those of the accumulator.
func (f *folder) bias(n *graph.Node, v, xs, ws graph.ValueID) (graph.ValueID, error) {
	b, ok := f.of(v)
	if !ok || f.dtype(b) != tensor.Int32 || f.g.Const(b.x) == nil {
		return graph.NoValue, errors.New("the bias is not constant integers of int32")
	}
	alpha := float32(1)
	if n.Op == "Gemm" {
		alpha = n.Alpha()
	}
	x, w, s := f.g.Const(xs), f.g.Const(ws), f.g.Const(b.scale)
	if x == nil || w == nil || s == nil {
		return graph.NoValue, errors.New("scales of the bias are computed at run time")
	}
	for i := range max(w.Len(), s.Len()) {
		want := qmath.BiasScale(x.F32()[0], float32(w.F32()[min(i, w.Len()-1)]*alpha))
		if got := s.F32()[min(i, s.Len()-1)]; math.Float32bits(got) != math.Float32bits(want) {
			return graph.NoValue, fmt.Errorf("the scale of the bias is %g, not input scale * weight scale = %g", got, want)
		}
	}
	return b.x, nil
}
