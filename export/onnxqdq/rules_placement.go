package onnxqdq

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

var weightedInputsRule = Rule{Name: "weighted-inputs", Doc: "a weighted operator has both data inputs quantized, or none",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if op := c.t.Op(n); op == nil || op.Role != target.Weighted {
				return
			}
			if a, b := c.dequantizer(n, 0), c.dequantizer(n, 1); (a == nil) != (b == nil) {
				c.report(n, "one of its inputs is quantized, the other is not")
			}
		})
	}}

var weightFormRule = Rule{Name: "weight-form", Doc: "a quantized weight stands as the target reads it: float with Q and DQ, or integers with DQ",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if op := c.role(n); op == nil || op.Role != target.Weighted {
				return
			}
			dq := c.dequantizer(n, 1)
			if dq == nil {
				return
			}
			if w := c.g.Const(dq.Input(0)); w != nil {
				if c.t.Export.FloatWeights {
					c.report(n, "integer weight, a float one with Q and DQ is what every version reads")
				} else if w.DType != tensor.Int8 && c.t.Export.Int8Weights {
					c.report(n, "weight of type %s", w.DType)
				}
				return
			}
			q := c.producer(dq, 0)
			if is(q, quantizeLinear) && c.g.Const(q.Input(0)) != nil && !c.t.Export.FloatWeights {
				c.report(n, "float weight with Q and DQ, integers are what is fused")
			}
		})
	}}

func floatBias(t *target.Target) bool { return t.Bias.Bits == 0 }

var floatBiasRule = Rule{Name: "float-bias", Doc: "the bias stays float: a DQ of int32 ends TensorRT's import", applies: floatBias,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if c.g.Value(n.Input(0)).DType == tensor.Int32 {
				c.report(n, "a DequantizeLinear of int32")
			}
		}, dequantizeLinear)
	}}

var integerBiasRule = Rule{Name: "integer-bias", Doc: "the bias of a quantized operator is int32 with scale input scale * weight scale",
	applies: func(t *target.Target) bool { return !floatBias(t) },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if op := c.role(n); op == nil || op.Role != target.Weighted || n.Input(2) == graph.NoValue || c.dequantizer(n, 1) == nil {
				return
			}
			dq := c.dequantizer(n, 2)
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
			if slices.ContainsFunc(integers(codes), func(q int32) bool { return q == math.MaxInt32 || q == math.MinInt32 }) {
				c.report(n, "a bias saturates int32")
			}
		})
	}}

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

var splitFusionRule = Rule{Name: "split-fusion", Doc: "no Q/DQ between a weighted operator and the activation that is fused to it",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.t.Op(n)
			dq := c.dequantizer(n, 0)
			if op == nil || op.Role != target.Activation || dq == nil || len(c.readers(dq, 0)) != 1 {
				return
			}
			q := c.producer(dq, 0)
			if !is(q, quantizeLinear) || len(c.readers(q, 0)) != 1 {
				return
			}
			head := c.producer(q, 0)
			if head == nil || len(c.readers(head, 0)) != 1 || c.g.IsOutput(dq.Outputs[0]) {
				return
			}
			if row := c.t.Op(head); row != nil && row.Role == target.Weighted && c.dequantizer(head, 0) != nil {
				c.report(n, "Q/DQ stands between it and %q", head.Name)
			}
		})
	}}

func integerOutputs(t *target.Target) bool { return t.Outputs }

var integerOutputRule = Rule{Name: "integer-output", Doc: "what a quantized operator (with its activation) computes is read by one Q only, else it is not replaced by an integer kernel",
	applies: integerOutputs,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || op.Role == target.Activation || !c.allDequantized(n) {
				return
			}
			last := n
			if r := c.readers(n, 0); len(r) == 1 && !c.g.IsOutput(n.Outputs[0]) {
				if row := c.t.Op(r[0]); row != nil && row.Role == target.Activation {
					last = r[0]
				}
			}
			r := c.readers(last, 0)
			if len(r) != 1 || !is(r[0], quantizeLinear) || c.g.IsOutput(last.Outputs[0]) {
				c.report(n, "its result is not read by exactly one QuantizeLinear")
			}
		})
	}}

// allDequantized reports whether every data input of n that is not a constant is dequantized.
func (c *checker) allDequantized(n *graph.Node) bool {
	for _, i := range target.DataInputs(c.g, n.ID) {
		if c.dequantizer(n, i) == nil && c.g.Const(n.Input(i)) == nil {
			return false
		}
	}
	return true
}

var passiveRule = Rule{Name: "passive", Doc: "an operator that moves elements has one scale and zero point on both sides", applies: integerOutputs,
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || op.Role != target.Passive {
				return
			}
			for i := range n.Outputs {
				for _, q := range c.readers(n, i) {
					if is(q, quantizeLinear) && !c.sameParams(c.dequantizer(n, 0), q) {
						c.report(n, "output %d has another scale or zero point than the input", i)
					}
				}
			}
		})
	}}
