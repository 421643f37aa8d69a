package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
	"qwb/quantizer/tqc"
)

// runTimePair writes a Q and a DQ whose scale is computed from the tensor itself (qdq.RunTimePair). Symmetric unsigned integers, whose zero
// point is the middle, are an error.
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
	if c.Policy.Has(tqc.PerToken) {
		b.need = max(b.need, opsetBlocks)
	}
	return qdq.RunTimePair(b.g, name, from, c, d, to)
}

// integerProducts writes products of codes with one scale of run time, and LSTM of such, as ONNX Runtime multiplies them on
// integers. Behind Q/DQ it would multiply floats.
func (b *builder) integerProducts() error {
	if !onRuntime(b.t) {
		return nil
	}
	_, err := passes.IntegerProducts(b.g, func(n *graph.Node) bool {
		dq := b.producer(n.Inputs[0], dequantizeLinear)
		return n.Op != "Conv" && // ConvInteger takes 17 times as long as floats
			dq.AttrInt("block_size", 0) == 0 // ONNX Runtime quantizes rows more slowly than it multiplies floats
	})
	if err == nil {
		_, err = passes.IntegerRecurrences(b.g)
	}
	return err
}
