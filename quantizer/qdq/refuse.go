package qdq

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// refused lists operators on integers that no plan can express, with the reason.
var refused = []struct{ op, why string }{
	{"DynamicQuantizeLinear", "its scale is computed when the model runs, and not all of its outputs go to a DequantizeLinear"},
	{"ConvInteger", "it gives int32 sums, and nothing in the operator says by which scale they stand for numbers; as a rule the " +
		"scale is dynamic"},
	{"MatMulInteger", "it gives int32 sums, and nothing in the operator says by which scale they stand for numbers; as a rule the " +
		"scale is dynamic"},
	{"DynamicQuantizeMatMul", "its scale is computed when the model runs: a plan holds constant scales only; calibrate the float " +
		"model instead"},
	{"QAttention", "its parts are not operators of a float graph; export the model in Q/DQ form"},
	{"QEmbedLayerNormalization", "its parts are not operators of a float graph; export the model in Q/DQ form"},
	{"QLinearReduceMean", "export the model in Q/DQ form"},
	{"QLinearWhere", "export the model in Q/DQ form"},
	{"MatMulNBits", "weights in blocks of few bits are no integers of an 8-bit plan"},
}

// refuse returns an error for the first operator, in order, that cannot be imported.
func refuse(g *graph.Graph) error {
	order, err := g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	for _, id := range order {
		n := g.Node(id)
		if !standard(n.Domain) {
			continue
		}
		for _, r := range refused {
			if n.Op == r.op && !simple(g, n) {
				return g.ErrorAt(stage, id, errors.New(r.why))
			}
		}
		if t := g.Const(n.Input(0)); n.Op == "Gather" && t != nil && t.DType == tensor.Float32 && slices.Equal(t.F32(), qmath.Book()) {
			return g.ErrorAt(stage, id, errors.New("weights in a table of numbers (NF4) are not read back: a plan of the float model holds them"))
		}
		if _, fused := QOperators[n.Op]; fused || isQuantize(n) || isDequantize(n) {
			if err := complete(n); err != nil {
				return g.ErrorAt(stage, id, err)
			}
		}
	}
	return nil
}

// simple reports whether codes, scale and zero point of a DynamicQuantizeLinear are read by DequantizeLinear only: a pair.
func simple(g *graph.Graph, n *graph.Node) bool {
	if !isDynamic(n) || len(n.Outputs) != 3 {
		return false
	}
	for i, v := range n.Outputs {
		if v == graph.NoValue || g.IsOutput(v) || g.Captured(v) {
			return false
		}
		for _, u := range g.Uses(v) {
			dq := g.Node(u.Node)
			if !isDequantize(dq) || u.Index != i || dq.Input(0) != n.Outputs[0] || dq.Input(1) != n.Outputs[1] || dq.Input(2) != n.Outputs[2] {
				return false
			}
		}
	}
	return len(g.Uses(n.Outputs[0])) > 0
}

// complete reports what an operator lacks of the inputs and outputs that it must have.
func complete(n *graph.Node) error {
	least := 2
	if s := n.Spec(); s != nil {
		least = s.MinIn
	}
	for i := range least {
		if n.Input(i) == graph.NoValue {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	if len(n.Outputs) != 1 || n.Outputs[0] == graph.NoValue {
		return errors.New("it has not exactly one output")
	}
	return nil
}
