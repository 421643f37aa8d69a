package passes

// Simplify lets the output slot of an integer operator quantize for the operators that read it.
var Simplify = Pass{Name: "simplify", Doc: "an input is governed by the output slot that computes it", Run: simplify}

func simplify(c *Context) error {
	for _, id := range c.integers() {
		for _, s := range c.Set.Inputs(id) {
			if !c.waiting(s) {
				continue
			}
			src := c.source(c.Set.Slot(s).Value)
			if !c.waiting(src) || !c.Set.Slot(src).Config.SameScheme(c.Set.Slot(s).Config) {
				continue
			}
			if err := c.Set.Dominate(s, src); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}
