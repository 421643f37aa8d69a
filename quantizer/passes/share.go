package passes

import (
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Share gives the quantizers in front of several readers of one tensor one scale: the first reader's. An exporter may write
// them as a single pair, and an engine keeps a single copy of the integers. Scales that are computed at run time are
// equal anyway.
var Share = Pass{Name: "share", Doc: "inputs that quantize the same tensor borrow the scale of the first of them", Run: share}

func share(c *Context) error {
	first := map[graph.ValueID]tqc.SlotID{}
	for _, id := range c.integers() {
		for _, s := range c.Set.Inputs(id) {
			if !c.waiting(s) || c.Set.Slot(s).Weight || c.Set.Slot(s).Config.RunTime() {
				continue
			}
			v := c.Set.Slot(s).Value
			leader, seen := first[v]
			if !seen {
				first[v] = s
				continue
			}
			if !c.Set.Slot(leader).Config.SameScheme(c.Set.Slot(s).Config) {
				continue
			}
			if err := c.Set.Borrow(s, leader); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}
