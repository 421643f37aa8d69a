package onnxqdq

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// storage is an ONNX type that codes are stored in.
type storage struct {
	dtype tensor.DType
	opset int64 // since which Q and DQ take it
	bits  int
	// low and high are the numbers where QuantizeLinear clips.
	low, high int32
	kind      qmath.NumberType
}

// storages are ordered by width within a kind. ONNX operator changelog, QuantizeLinear and DequantizeLinear.
var storages = []storage{
	{dtype: tensor.Int2, opset: 25, bits: 2, low: -2, high: 1},
	{dtype: tensor.Uint2, opset: 25, bits: 2, high: 3},
	{dtype: tensor.Int4, opset: 21, bits: 4, low: -8, high: 7},
	{dtype: tensor.Uint4, opset: 21, bits: 4, high: 15},
	{dtype: tensor.Int8, opset: 10, bits: 8, low: -1 << 7, high: 1<<7 - 1},
	{dtype: tensor.Uint8, opset: 10, bits: 8, high: 1<<8 - 1},
	{dtype: tensor.Int16, opset: 21, bits: 16, low: -1 << 15, high: 1<<15 - 1},
	{dtype: tensor.Uint16, opset: 21, bits: 16, high: 1<<16 - 1},
	{dtype: tensor.Int32, opset: 10, bits: 32, low: -1 << 31, high: 1<<31 - 1},
	{dtype: tensor.Float8E4M3FN, opset: 19, bits: 8, low: -448, high: 448, kind: qmath.FloatE4M3},
	{dtype: tensor.Float8E5M2, opset: 19, bits: 8, low: -57344, high: 57344, kind: qmath.FloatE5M2},
	{dtype: tensor.Float4E2M1, opset: 23, bits: 4, low: -6, high: 6, kind: qmath.FloatE2M1},
}

// The opsets that bring blocks, and E8M0 as the type of a scale.
const (
	opsetBlocks = 21
	opsetPowers = 24
)

// storageOf returns the row of a type, nil where Q and DQ do not know it.
func storageOf(d tensor.DType) *storage {
	for i := range storages {
		if storages[i].dtype == d {
			return &storages[i]
		}
	}
	return nil
}

// reads reports whether a target's readers know an opset.
func reads(t *target.Target, opset int64) bool {
	return t.Export.MaxOpset == 0 || opset <= t.Export.MaxOpset
}

// stored returns the type for the codes of a config: the narrowest that holds them and that the target's readers know. Integers of a
// width that no type has lie in the next wider one.
func stored(c *tqc.Config, t *target.Target) (*storage, error) {
	lacks := int64(0)
	for i := range storages {
		s := &storages[i]
		if s.kind != c.Type || s.bits < c.Bits || c.Integer() && (s.low < 0) != c.Signed() || s.dtype == tensor.Int32 && c.Bits <= 16 {
			continue // int32 is for biases
		}
		if reads(t, s.opset) {
			return s, nil
		}
		if lacks == 0 {
			lacks = s.opset
		}
	}
	if lacks > 0 {
		return nil, fmt.Errorf("%s reads opsets up to %d, and %s needs %d", t.Name, t.Export.MaxOpset, c.FormatName(), lacks)
	}
	if c.Integer() {
		return nil, fmt.Errorf("%d bits from %d to %d have no ONNX integer type", c.Bits, c.QMin, c.QMax)
	}
	return nil, fmt.Errorf("%s has no Q/DQ form", c.FormatName())
}

// powers reports whether the scales of a config are written as E8M0 for a target.
func powers(c *tqc.Config, t *target.Target) bool {
	return (c.Blocks == tqc.MX || c.Blocks == tqc.MXCeil) && reads(t, opsetPowers)
}

// opsetOf is the lowest opset that has the Q/DQ form of a config.
func opsetOf(c *tqc.Config, s *storage, t *target.Target) int64 {
	need := s.opset
	if c.Policy.Has(tqc.PerGroup) {
		need = max(need, opsetBlocks)
	}
	if powers(c, t) {
		need = max(need, opsetPowers)
	}
	return need
}

// computable reports why QuantizeLinear would not compute what a config says: it rounds half to even, and clips where its type
// ends. Where a Clip of the integers may stand behind it (clips), 8-bit ranges may be narrower.
func computable(c *tqc.Config, s *storage, clips bool) error {
	switch {
	case c.Rounding != qmath.HalfEven:
		return fmt.Errorf("rounding %s: QuantizeLinear rounds half to even", c.Rounding)
	case clips && c.Integer() && s.bits == 8 && c.QMin >= s.low && c.QMax <= s.high:
	case s.low != c.QMin || s.high != c.QMax:
		return fmt.Errorf("range %d to %d: QuantizeLinear clips %s to %d and %d", c.QMin, c.QMax, s.dtype, s.low, s.high)
	}
	return nil
}
