package passes

import (
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Fuse lets the output of an activation govern all tensors between the operator it is fused with and itself.
var Fuse = Pass{Name: "fuse", Doc: "tensors inside a fused group are governed by the group's output", Run: fuse}

func fuse(c *Context) error {
	if !c.Bound.Outputs {
		return nil // nothing inside a group was configured
	}
	for _, head := range c.integers() {
		nodes := Fused(c.Bound.Order, c.Set, head)
		if len(nodes) == 1 {
			continue
		}
		last := c.Set.Output(nodes[len(nodes)-1], 0)
		for i, id := range nodes {
			var slots []tqc.SlotID
			if i > 0 {
				slots = append(slots, c.Set.Inputs(id)...)
			}
			slots = append(slots, c.Set.Outputs(id)...)
			for _, s := range slots {
				if s == last || !c.waiting(s) {
					continue
				}
				if err := c.Set.Dominate(s, last); err != nil {
					return c.Graph.ErrorAt("configure", id, err)
				}
			}
		}
	}
	return nil
}

// Fused returns the nodes that are computed together with head, in order, head first. The last one computes the group's
// output.
func Fused(order []graph.NodeID, set *tqc.Set, head graph.NodeID) []graph.NodeID {
	nodes := []graph.NodeID{head}
	for _, id := range order {
		if set.Fused[id] == head {
			nodes = append(nodes, id)
		}
	}
	return nodes
}
