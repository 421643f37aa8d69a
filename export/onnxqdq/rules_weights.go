package onnxqdq

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

var weightFormRule = rule{Name: "weight-form", Doc: "a quantized weight stands as the target reads it: float with Q and DQ, or integers " +
	"with DQ, as all do of less than 8 bits", Fix: "write the weight in the form that the rule names",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op, w := c.role(n), c.weight(n)
			if op == nil || op.Role != target.Weighted || w == nil {
				return
			}
			switch float := c.quantizer(c.dequantizer(n, 1)) != nil; {
			case w.DType.Bits() < 8: // dequantized before anything is computed
			case c.t.Export.FloatWeights && !float:
				c.report(n, "integer weight, a float one with Q and DQ is what every version reads")
			case !c.t.Export.FloatWeights && float:
				c.report(n, "float weight with Q and DQ, integers are what is fused")
			case c.t.Export.Int8Weights && w.DType == tensor.Uint8 && c.reads(n, tensor.Int8):
				c.report(n, "weight of type %s with activations of int8", w.DType)
			}
		})
	}}

// reads reports whether input 0 of a node is dequantized from a type.
func (c *checker) reads(n *graph.Node, d tensor.DType) bool {
	dq := c.dequantizer(n, 0)
	return dq != nil && c.g.Value(dq.Input(0)).DType == d
}

var weightZeroPointRule = rule{Name: "weight-zero-point",
	Doc: "all channels of a weight of 8 bits and more have one zero point: kernels take no more", Fix: "quantize the weight symmetrically",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || op.Role != target.Weighted || c.weight(n) == nil || c.weight(n).DType.Bits() < 8 {
				return
			}
			zp, _ := c.zeroPoints(c.dequantizer(n, 1))
			if slices.ContainsFunc(zp, func(z int32) bool { return z != zp[0] }) {
				c.report(n, "the channels of its weight have several zero points")
			}
		})
	}}

func floatBias(t *target.Target) bool { return t.Bias.Bits == 0 }

var floatBiasRule = rule{Name: "float-bias", Doc: "the bias stays float: a DQ of int32 ends TensorRT's import",
	Fix: "leave the bias in float", applies: floatBias,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if c.g.Value(n.Input(0)).DType == tensor.Int32 {
				c.report(n, "a DequantizeLinear of int32")
			}
		}, dequantizeLinear)
	}}

var integerBiasRule = rule{Name: "integer-bias", Doc: "the bias of a quantized operator is int32 with scale input scale * weight scale",
	Fix:     "quantize the bias to int32 with scale input scale * weight scale",
	applies: func(t *target.Target) bool { return !floatBias(t) },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			at := graph.BiasOf(n)
			if op := c.role(n); op == nil || op.Role != target.Weighted || n.Input(at) == graph.NoValue || !c.integerProduct(n) {
				return
			}
			dq := c.dequantizer(n, at)
			if dq == nil {
				c.report(n, "its bias is not quantized")
				return
			}
			codes := c.g.Const(dq.Input(0))
			if codes == nil || codes.DType != tensor.Int32 {
				c.report(n, "its bias is not an int32 constant")
				return
			}
			c.biasScale(n, dq)
			if slices.ContainsFunc(codes.Integers(), func(q int32) bool { return q == math.MaxInt32 || q == math.MinInt32 }) {
				c.report(n, "a bias saturates int32")
			}
		})
	}}

// integerProduct reports whether an operator sums products of integers, whose scales are constants and none of them of blocks.
func (c *checker) integerProduct(n *graph.Node) bool {
	for i := range 2 {
		dq := c.dequantizer(n, i)
		if dq == nil {
			continue // another rule
		}
		s := storageOf(c.g.Value(dq.Input(0)).DType)
		if c.runTime(dq) || dq.Quantize().Block > 0 || s != nil && s.kind != qmath.Integers {
			return false
		}
	}
	return true
}

func (c *checker) biasScale(n, bias *graph.Node) {
	x, w, b := c.scales(c.dequantizer(n, 0)), c.scales(c.dequantizer(n, 1)), c.scales(bias)
	if len(x) != 1 || len(b) != len(w) && len(w) != 1 {
		c.report(n, "%d bias scales for %d weight scales", len(b), len(w))
		return
	}
	for i := range b {
		if want := qmath.BiasScale(x[0], w[min(i, len(w)-1)]); b[i] != want {
			c.report(n, "bias scale %d is %g, input scale * weight scale is %g", i, b[i], want)
			return
		}
	}
}
