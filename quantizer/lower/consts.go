package lower

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// quantizeConst returns the integers of a constant, row-major. NaN is an error.
func quantizeConst(t *tensor.Tensor, e Encoding) (*tensor.Tensor, error) {
	d := e.DType()
	c := &tqc.Config{Policy: tqc.PerTensor, Format: qmath.Format{Bits: d.Bits(), QMin: e.QMin, QMax: e.QMax}, Rounding: e.Rounding}
	return tqc.QuantizeTo(d, t, c, &tqc.Params{Scale: []float32{e.Scale}, ZeroPoint: []int32{e.ZeroPoint}})
}

// setCode stores q as element i of an integer tensor, whose type has it.
func setCode(t *tensor.Tensor, i int, q int32) {
	switch d := t.Data.(type) {
	case []int8:
		d[i] = int8(q)
	case []uint8:
		d[i] = uint8(q)
	case []int16:
		d[i] = int16(q)
	case []uint16:
		d[i] = uint16(q)
	case []int32:
		d[i] = q
	}
}

// scalar returns the only element of a constant float32 input; false where the input is absent.
func (c *compiler) scalar(id graph.NodeID, i int) (float32, bool, error) {
	v := c.g.Node(id).Input(i)
	if v == graph.NoValue {
		return 0, false, nil
	}
	t := c.g.Const(v)
	if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
		return 0, false, c.fail(id, "input %d is not a constant number", i)
	}
	return t.F32()[0], true, nil
}

// constSlot returns the slot of a constant input, which must quantize.
func (c *compiler) constSlot(id graph.NodeID, i int) (*tqc.Slot, *tqc.Params, error) {
	slot := c.set.Input(id, i)
	if slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() {
		return nil, nil, c.fail(id, "constant input %d is not quantized", i)
	}
	p := c.set.Params(slot)
	if !p.Ready() {
		return nil, nil, c.fail(id, "constant input %d has no scale", i)
	}
	return c.set.Slot(slot), p, nil
}
