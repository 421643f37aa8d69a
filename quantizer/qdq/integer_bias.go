package qdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// integerBiases makes integers of float biases where that is wanted and the target's operators need them: by input scale * weight scale, as
// the engine would. One that does not fit into 32 bits stays in float.
func (c *configurer) integerBiases() error {
	if !c.q.IntegerBiases {
		return nil
	}
	var nodes []graph.NodeID
	for _, id := range c.bound.Order {
		if int(id) >= len(c.bound.Ops) || !c.integer[id] {
			continue
		}
		if op := c.bound.Ops[id]; op == nil || op.Role != target.Weighted || !needsIntegerBias(op) {
			continue
		}
		s := c.set.Input(id, graph.BiasInput)
		if s == tqc.NoSlot || c.set.Slot(s).State() != tqc.FP32 || !c.fitsBias(id, s) {
			continue
		}
		cfg := c.t.Bias
		if w := c.set.Slot(c.set.Input(id, 1)).Config; w.Policy.Has(tqc.PerChannel) {
			cfg.Policy = cfg.Policy&^tqc.PerTensor | tqc.PerChannel
		}
		c.set.Slot(s).Weight = true
		if err := c.set.Configure(s, cfg); err != nil {
			return c.g.ErrorAt(stage, id, err)
		}
		if err := c.set.Advance(s, tqc.PassiveInit); err != nil {
			return c.g.ErrorAt(stage, id, err)
		}
		nodes = append(nodes, id)
	}
	if len(nodes) == 0 {
		return nil
	}
	c.warnings = append(c.warnings, tqc.Warning{Node: c.g.Node(nodes[0]).Name, Value: float64(len(nodes)),
		Text: fmt.Sprintf("%d biases are float in the file; %s adds integers, so they are rounded to multiples of input scale * weight scale",
			len(nodes), c.t.Name)})
	w, err := passes.SolveBiasOf(c.g, c.set, nodes)
	c.warnings = append(c.warnings, w...)
	return err
}

func needsIntegerBias(op *target.Op) bool {
	return slices.ContainsFunc(op.Needs, func(n target.Condition) bool { return n.Name == target.IntegerBias.Name })
}

// fitsBias reports whether every number of a bias has an integer by the scale of its sum.
func (c *configurer) fitsBias(id graph.NodeID, s tqc.SlotID) bool {
	t := c.g.Const(c.set.Slot(s).Value)
	xs, ws := c.set.Input(id, 0), c.set.Input(id, 1)
	if t == nil || t.DType != tensor.Float32 || len(t.Shape) != 1 || xs == tqc.NoSlot || ws == tqc.NoSlot {
		return false
	}
	x, w := c.set.Params(xs), c.set.Params(ws)
	if !x.Ready() || !w.Ready() || len(x.Scale) != 1 || len(w.Scale) != 1 && len(w.Scale) != t.Len() ||
		c.set.Slot(ws).Config.Policy.Has(tqc.PerGroup) {
		return false
	}
	for i, v := range t.F32() {
		scale := qmath.BiasScale(x.Scale[0], w.Scale[i%len(w.Scale)])
		if _, ok := qmath.QuantizeBias(v, scale); !ok || scale < 0x1p-126 {
			return false
		}
	}
	return true
}
