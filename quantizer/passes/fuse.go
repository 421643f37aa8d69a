package passes

import (
	"slices"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Fuse lets the output of an activation govern all tensors between the operator it is fused with and itself.
var Fuse = Pass{Name: "fuse", Doc: "tensors inside a fused group are governed by the group's output", Run: fuse}

func fuse(c *Context) error {
	if !c.Bound.Placement.Outputs() {
		return nil // nothing inside a group was configured
	}
	last := map[graph.NodeID]tqc.SlotID{} // by head: the output of the group
	for _, id := range c.integers() {
		if head := c.Set.Fused[id]; head != graph.NoNode {
			last[head] = c.Set.Output(id, 0) // order: the last one stays
		}
	}
	for _, id := range c.integers() {
		head, slots := c.Set.Fused[id], c.Set.Outputs(id)
		if head == graph.NoNode {
			head = id
		} else {
			slots = append(slices.Clone(c.Set.Inputs(id)), slots...)
		}
		out, fused := last[head]
		if !fused {
			continue
		}
		for _, s := range slots {
			if s == out || !c.waiting(s) || c.argument(s, head) {
				continue
			}
			if err := c.Set.Dominate(s, out); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}

// argument reports whether a slot reads what enters the group of head from outside, as in the Mul of x * sigmoid(x).
func (c *Context) argument(s tqc.SlotID, head graph.NodeID) bool {
	sl := c.Set.Slot(s)
	p := c.Graph.Producer(sl.Value)
	return sl.Kind == tqc.Input && c.Graph.Const(sl.Value) == nil && (p == graph.NoNode || p != head && c.Set.Fused[p] != head)
}
