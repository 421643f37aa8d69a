package passes

import (
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Passive gives the outputs of operators that only move or select elements the scale of their input, and its rounding: a format that holds
// one encoding for a tensor would else find two, by who computes it and who reads it.
var Passive = Pass{Name: "passive", Doc: "outputs of passive operators borrow the scale of input 0", Run: passive}

func passive(c *Context) error {
	if !c.Bound.Placement.Outputs() {
		return nil // passive operators have no quantizers
	}
	for _, id := range c.integers() {
		if c.Bound.Ops[id].Role != target.Passive {
			continue
		}
		in := c.Set.Input(id, 0)
		for _, s := range c.Set.Outputs(id) {
			if !c.waiting(s) {
				continue
			}
			if p := c.Set.Slot(s).Config.Policy; !p.Has(tqc.PerTensor) {
				return c.fail(id, "%s scales cannot follow elements that the operator moves", p)
			}
			c.Set.Slot(s).Config.Rounding = c.Set.Slot(in).Config.Rounding
			if err := c.Set.Borrow(s, in); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}
