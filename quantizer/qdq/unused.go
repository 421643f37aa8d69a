package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// wellUsed is the share of its integers that an asymmetric grid behind an activation should be able to take.
const wellUsed = 0.75

// unused warns of grids behind Relu and Clip many of whose integers stand for numbers that the activation cuts off: what comes of
// measuring a range before the activation. Each halving costs a bit. Symmetric grids have that by design and are left out.
func (c *configurer) unused() error {
	count, seen, least, worst := 0, 0, 1.0, graph.NoNode
	for _, id := range c.bound.Order {
		lo, hi, ok := c.limits(id)
		s := c.set.Output(id, 0)
		if !ok || !c.integer[id] || s == tqc.NoSlot || !c.set.Slot(s).State().Quantizes() {
			continue
		}
		cfg := c.set.Slot(s).Config
		if cfg.RunTime() || !cfg.Policy.Has(tqc.Asymmetric) || !cfg.Policy.Has(tqc.PerTensor) {
			continue
		}
		g := c.set.Grid(s, 0)
		share := (float64(g.Quantize(hi)) - float64(g.Quantize(lo)) + 1) / (float64(g.QMax) - float64(g.QMin) + 1)
		seen++
		if share < wellUsed {
			count++
		}
		if share < least {
			least, worst = share, id
		}
	}
	if count > 0 {
		c.warnings = append(c.warnings, tqc.Warning{Node: c.g.Node(worst).Name, Value: least,
			Text: fmt.Sprintf("%d of %d outputs of Relu and Clip use "+
				"at most 75 %% of their quantization levels (here %.0f %%): observers were probably placed before the activation; recalibrate the "+
				"float model to fix this",
				count, seen, 100*least)})
	}
	return nil
}

// limits returns the bounds of a Relu or Clip with constant ones.
func (c *configurer) limits(id graph.NodeID) (lo, hi float32, ok bool) {
	lo, hi, ok = graph.LimitsOf(c.g.Node(id), c.g.Opset(""), c.g.Const)
	return lo, hi, ok && lo <= hi
}
