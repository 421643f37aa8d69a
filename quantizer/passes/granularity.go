package passes

import "qwb/quantizer/tqc"

// Granularity refuses configs whose scales vary along an axis that the operator sums over.
var Granularity = Pass{Name: "granularity", Doc: "no scale varies along a summed axis", Run: granularity}

func granularity(c *Context) error {
	for _, id := range c.integers() {
		for i, s := range c.Set.Inputs(id) {
			if s == tqc.NoSlot || c.Set.Slot(s).State() == tqc.FP32 {
				continue
			}
			if err := tqc.CheckGranularity(c.Graph, id, i, c.Set.Slot(s).Config); err != nil {
				return c.fail(id, "input %d: %w", i, err)
			}
		}
	}
	return nil
}
