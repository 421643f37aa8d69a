package onnxqdq

import (
	"slices"
	"strings"

	"qwb/graph"
)

var structureRule = rule{Name: "structure", meaning: true, Doc: "the graph is well formed and the parameters of every Q and DQ are " +
	"constants, two levels of them, or found from the tensor at run time", Fix: "write scales and zero points as constants",
	check: func(c *checker) {
		if err := c.g.Check(); err != nil {
			c.report(nil, "%v", err)
		}
		c.each(func(n *graph.Node) {
			for i := 1; i <= 2; i++ {
				if v := n.Input(i); v != graph.NoValue && c.g.Const(v) == nil && !c.runTime(n) && (i == 2 || c.scales(n) == nil) {
					c.report(n, "input %d is not a constant", i)
				}
			}
		}, quantizeLinear, dequantizeLinear)
	}}

// Both are beyond what ONNX has published.
const newestOpset, newestIR = 30, 20

// opsetRule knows no newest opset of a reader: a model is never lowered, and newer readers take it. See Warnings.
var opsetRule = rule{Name: "opset", meaning: true, Doc: "the opset is at least the one that the Q/DQ form of the target needs",
	Fix: "convert the model to the opset that the platform needs before quantizers are put in",
	check: func(c *checker) {
		if v, e := c.g.Opset(""), c.t.Export; v < e.MinOpset {
			c.report(nil, "opset %d, at least %d is needed", v, e.MinOpset)
		} else if v > newestOpset {
			c.report(nil, "opset %d: ONNX has none such", v)
		}
	}}

// operatorsRule follows the list of operators that TensorRT's parser does not import; ONNX Runtime reads them, but they are not
// the form that this exporter promises.
var operatorsRule = rule{Name: "operators", meaning: true, Doc: "Q/DQ form only: no operator-oriented quantized operators",
	Fix: "write the operator in float between DequantizeLinear and QuantizeLinear",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			other := func(r *graph.Node) bool { return !is(r, dequantizeLinear) }
			if strings.HasPrefix(n.Op, "QLinear") || is(n, "ConvInteger", "MatMulInteger") || is(n, dynamicQuantize) &&
				slices.ContainsFunc(c.readers(n, 0), other) {
				c.report(n, "%s is not Q/DQ form", n.Op)
			}
		})
	}}
