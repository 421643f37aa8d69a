package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// scaleAndZeroPoint returns the initializers of a slot's parameters; slots that share a scale share them.
func (b *builder) scaleAndZeroPoint(slot tqc.SlotID) (scale, zp graph.ValueID, err error) {
	s := b.set.Slot(slot)
	d, err := b.dtype(slot)
	if err != nil {
		return 0, 0, err
	}
	key := paramKey{b.set.Root(slot), d}
	if ids, ok := b.params[key]; ok {
		return ids[0], ids[1], nil
	}
	p := b.set.Params(slot)
	var shape []int
	switch {
	case s.Config.Policy.Has(tqc.PerChannel):
		shape = []int{len(p.Scale)}
	case s.Config.Policy.Has(tqc.PerGroup):
		w := b.src.Const(s.Value)
		if w == nil {
			return 0, 0, fmt.Errorf("per-group scales of an activation cannot be written")
		}
		shape = append(shape, w.Shape...)
		axis, ok := graph.Axis(s.Config.Axis, len(shape))
		if !ok {
			return 0, 0, fmt.Errorf("scales along axis %d of %s", s.Config.Axis, w.Type())
		}
		shape[axis] = (shape[axis] + s.Config.GroupSize - 1) / s.Config.GroupSize
	default:
		shape = []int{}
	}
	if tensor.Count(shape) != len(p.Scale) {
		return 0, 0, fmt.Errorf("%d scales for shape %v", len(p.Scale), shape)
	}
	zero, err := tqc.Narrow(d, shape, p.ZeroPoint)
	if err != nil {
		return 0, 0, err
	}
	name := b.src.Value(b.set.Slot(b.set.Root(slot)).Value).Name
	scales := tensor.FromF32(append([]float32(nil), p.Scale...), shape...)
	switch {
	case s.Config.Blocks == tqc.NV:
		scale, err = b.twoLevels(name, scales, p.Global)
	case powers(&s.Config, b.t):
		if scales, err = powersOf(scales); err == nil {
			scale = b.g.AddConst(name+"_scale", scales)
		}
	default:
		scale = b.g.AddConst(name+"_scale", scales)
	}
	if err != nil {
		return 0, 0, err
	}
	zp = b.g.AddConst(name+"_zero_point", zero)
	b.params[key] = [2]graph.ValueID{scale, zp}
	return scale, zp, nil
}

// powersOf returns scales of MX blocks as E8M0.
func powersOf(scales *tensor.Tensor) (*tensor.Tensor, error) {
	out := tensor.New(tensor.Float8E8M0, scales.Shape...)
	for i, s := range scales.F32() {
		code := qmath.EncodeE8M0(float64(s), qmath.Down, false)
		if qmath.DecodeE8M0(code) != s {
			return nil, fmt.Errorf("scale %d of MX blocks is %g, no power of two", i, s)
		}
		tensor.Of[uint8](out)[i] = code
	}
	return out, nil
}

// twoLevels writes the scales of NV blocks as E4M3 and a DequantizeLinear by the scale of the tensor.
func (b *builder) twoLevels(name string, scales *tensor.Tensor, global float32) (graph.ValueID, error) {
	codec := qmath.Codec{Format: qmath.FormatOf(qmath.FloatE4M3), Scale: global}
	codes := make([]int32, scales.Len())
	for i, s := range scales.F32() {
		if codes[i] = codec.Quantize(s); codec.Dequantize(codes[i]) != s {
			return graph.NoValue, fmt.Errorf("scale %d of NV blocks is %g, which is no E4M3 number times %g", i, s, global)
		}
	}
	whole, zero := tensor.New(tensor.Float32), tensor.New(tensor.Float8E4M3FN)
	whole.F32()[0] = global
	in := []graph.ValueID{b.g.AddConst(name+"_scale_quantized", tensor.New(tensor.Float8E4M3FN, scales.Shape...).WithIntegers(codes)),
		b.g.AddConst(name+"_scale_scale", whole), b.g.AddConst(name+"_scale_zero_point", zero)}
	out, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_scale"), DType: tensor.Float32, Shape: graph.Static(scales.Shape...)})
	if err != nil {
		return out, err
	}
	_, err = b.g.AddNode(graph.Node{Name: b.g.FreshName(name + "_scale_node"), Op: dequantizeLinear, Inputs: in,
		Outputs: []graph.ValueID{out}})
	return out, err
}
