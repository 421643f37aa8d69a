package passes

import (
	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Align gives the inputs of an operator that wants one scale for all of them that of its output, where that takes the scale
// from nobody else: the tensor is read by this operator only, its scale is not prescribed, and no activation is fused behind
// (whose grid would cut off what the activation cuts off). Other inputs keep their scale and are requantized by the operator.
var Align = Pass{Name: "align", Doc: "inputs of Concat and alike borrow the scale of its output", Run: align}

func align(c *Context) error {
	if !c.Bound.Placement.Outputs() {
		return nil
	}
	for _, id := range c.integers() {
		if c.Bound.Ops[id].Align != target.AlignOutput {
			continue
		}
		out := c.Set.Output(id, 0)
		if !c.waiting(out) {
			continue
		}
		for _, i := range c.Bound.DataInputs(id) {
			s := c.alignable(id, c.Set.Input(id, i))
			if s == tqc.NoSlot || c.Set.Root(s) == out {
				continue
			}
			if err := c.Set.Borrow(s, out); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}

// alignable returns the slot that quantizes what input s of node id reads, if it may take another scale, else NoSlot.
func (c *Context) alignable(id graph.NodeID, s tqc.SlotID) tqc.SlotID {
	if s == tqc.NoSlot {
		return tqc.NoSlot
	}
	v := c.Set.Slot(s).Value
	root := c.Set.Root(s)
	r := c.Set.Slot(root)
	if !c.waiting(root) || r.Value != v || r.Config.Observer == tqc.ObserverFixed {
		return tqc.NoSlot
	}
	if r.Weight {
		return root
	}
	if c.Graph.IsOutput(v) || c.Graph.Captured(v) {
		return tqc.NoSlot
	}
	for _, u := range c.Graph.Uses(v) {
		if u.Node != id {
			return tqc.NoSlot
		}
	}
	return root
}
