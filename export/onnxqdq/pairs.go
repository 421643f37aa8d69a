package onnxqdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// dtype returns the type that codes of a slot are stored in, and notes the opset that it needs.
func (b *builder) dtype(slot tqc.SlotID) (tensor.DType, error) {
	c := &b.set.Slot(slot).Config
	s, err := stored(c, b.t)
	if err != nil {
		return 0, err
	}
	b.need = max(b.need, opsetOf(c, s, b.t))
	return s.dtype, nil
}

// dequantized returns DQ(Q(v)) by the slot's scale, shared by all who ask for the same.
func (b *builder) dequantized(v graph.ValueID, slot tqc.SlotID) (graph.ValueID, error) {
	d, err := b.dtype(slot)
	if err != nil {
		return graph.NoValue, err
	}
	key := pairKey{v, b.set.Root(slot), d, ""}
	if c := &b.set.Slot(slot).Config; c.RunTime() { // the tensor itself says its scales, whoever reads it
		key.root, key.runTime = tqc.NoSlot, fmt.Sprint(c.Policy, c.QMin, c.QMax, c.Axis, c.GroupSize)
	}
	if dq, ok := b.pairs[key]; ok {
		return dq, nil
	}
	val := *b.g.Value(v)
	dq, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(val.Name + "_DequantizeLinear"), DType: tensor.Float32, Shape: val.Shape})
	if err != nil {
		return graph.NoValue, err
	}
	b.pairs[key] = dq
	return dq, b.pair(val.Name, v, slot, dq)
}

// pair adds Q and DQ between from and to; name is what they are named after.
func (b *builder) pair(name string, from graph.ValueID, slot tqc.SlotID, to graph.ValueID) error {
	c := &b.set.Slot(slot).Config
	if c.RunTime() {
		return b.runTimePair(name, from, slot, to)
	}
	scale, zp, err := b.scaleAndZeroPoint(slot)
	if err != nil {
		return err
	}
	computed := b.g.Const(from) == nil
	if computed {
		if err := computable(c, storageOf(b.g.Value(zp).DType), b.t.Export.Open); err != nil {
			return err
		}
	}
	q, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_QuantizeLinear"), DType: b.g.Value(zp).DType,
		Shape: b.g.Value(from).Shape})
	if err != nil {
		return err
	}
	if err := b.node("QuantizeLinear", name, c, []graph.ValueID{from, scale, zp}, q); err != nil {
		return err
	}
	if computed {
		if q, err = b.clipped(name, c, q); err != nil {
			return err
		}
	}
	return b.node("DequantizeLinear", name, c, []graph.ValueID{q, scale, zp}, to)
}

// clipped puts a Clip behind integers that may not take all numbers of their type, where no engine's patterns forbid it.
func (b *builder) clipped(name string, c *tqc.Config, q graph.ValueID) (graph.ValueID, error) {
	d := b.g.Value(q).DType
	if !c.Integer() || c.Bits != 8 || c.QMax-c.QMin == 255 {
		return q, nil
	}
	bound := func(what string, v int32) graph.ValueID {
		return b.g.AddConst(name+what, tensor.New(d).WithIntegers([]int32{v}))
	}
	y, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_Clip"), DType: d, Shape: b.g.Value(q).Shape})
	if err != nil {
		return y, err
	}
	_, err = b.g.AddNode(graph.Node{Name: b.g.FreshName(name + "_Clip_node"), Op: "Clip",
		Inputs:  []graph.ValueID{q, bound("_lowest", c.QMin), bound("_highest", c.QMax)},
		Outputs: []graph.ValueID{y}})
	return y, err
}

func (b *builder) node(op, name string, c *tqc.Config, in []graph.ValueID, out graph.ValueID) error {
	n := graph.Node{Name: b.g.FreshName(name + "_" + op + "_node"), Op: op, Inputs: in, Outputs: []graph.ValueID{out}}
	if !c.Policy.Has(tqc.PerTensor) {
		n.Attrs = append(n.Attrs, graph.Int("axis", int64(c.Axis)))
	}
	if c.Policy.Has(tqc.PerGroup) {
		n.Attrs = append(n.Attrs, graph.Int("block_size", int64(c.GroupSize)))
	}
	if op == dequantizeLinear && b.g.Value(in[1]).DType != tensor.Float32 {
		n.Attrs = append(n.Attrs, graph.Int("output_dtype", int64(tensor.Float32))) // else it is the type of the scale
	}
	_, err := b.g.AddNode(n)
	return err
}

// likewise is the first slot of the same constant that was asked for and has the same integers and scales, as the steps of a cell have:
// what is written twice is read and kept in memory twice. TensorRT's weights are each for one reader.
func (b *builder) likewise(slot tqc.SlotID) tqc.SlotID {
	s, p := b.set.Slot(slot), b.set.Params(slot)
	for _, first := range b.constants[s.Value] {
		o := b.set.Params(first)
		if b.set.Slot(first).Config.SameScheme(s.Config) && slices.Equal(o.Scale, p.Scale) && slices.Equal(o.ZeroPoint, p.ZeroPoint) &&
			o.Global == p.Global && slices.Equal(o.Codes, p.Codes) {
			return first
		}
	}
	if !b.t.Export.FloatWeights {
		b.constants[s.Value] = append(b.constants[s.Value], slot)
	}
	return slot
}

// constant returns the dequantized form of a constant input: an integer initializer and a DQ, or, where the target reads float
// weights, their dequantized values with Q and DQ (codes of less than 8 bits have a DQ alone).
// Q then gives the codes back whichever way it rounds.
func (b *builder) constant(slot tqc.SlotID) (graph.ValueID, error) {
	s := b.set.Slot(slot)
	isBook := s.Config.Type == qmath.BookNF4
	d, err := tensor.Uint4, error(nil)
	if !isBook {
		d, err = b.dtype(slot)
	}
	if err != nil {
		return graph.NoValue, err
	}
	if s.Config.RunTime() {
		return graph.NoValue, fmt.Errorf("policy %q for a constant", s.Config.Policy)
	}
	key := pairKey{s.Value, b.set.Root(b.likewise(slot)), d, ""}
	if dq, ok := b.weights[key]; ok {
		return dq, nil
	}
	w := b.src.Const(s.Value)
	name := b.src.Value(s.Value).Name
	dq, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_DequantizeLinear"), DType: tensor.Float32,
		Shape: graph.Static(w.Shape...)})
	if err != nil {
		return graph.NoValue, err
	}
	b.weights[key] = dq
	if isBook {
		return dq, b.book(slot, dq)
	}
	codes, err := tqc.QuantizeTo(d, w, &s.Config, b.set.Params(slot))
	b.g.Forget(w)
	if err != nil {
		return graph.NoValue, err
	}
	if b.t.Export.FloatWeights && d.Bits() >= 8 {
		exact, err := baked(codes, &s.Config, b.set.Params(slot))
		if err != nil {
			return graph.NoValue, err
		}
		float := b.g.AddConst(name+"_quantized", exact)
		if _, second := b.baked[s.Value]; !second {
			b.baked[s.Value] = float
		}
		return dq, b.pair(name, float, slot, dq)
	}
	scale, zp, err := b.scaleAndZeroPoint(slot)
	if err != nil {
		return graph.NoValue, err
	}
	q := b.g.AddConst(name+"_quantized", codes)
	return dq, b.node("DequantizeLinear", name, &s.Config, []graph.ValueID{q, scale, zp}, dq)
}
