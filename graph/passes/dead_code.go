package passes

import (
	"fmt"

	"qwb/graph"
)

// DeadCode removes nodes that no output depends on.
var DeadCode = Pass{
	Name:  "dead-code",
	Doc:   "Removes nodes that no output depends on.",
	sweep: deadCode,
}

func deadCode(c *Context) error {
	order, err := c.G.Order()
	if err != nil {
		return err
	}
	for i := len(order) - 1; i >= 0; i-- { // readers come before what they read
		n := c.G.Node(order[i])
		if c.needed(n) {
			continue
		}
		p := &Patch{What: "no output depends on it"}
		p.Drop(n.ID)
		if err := c.apply(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Context) needed(n *graph.Node) bool {
	for _, v := range n.Outputs {
		if v != graph.NoValue && (len(c.G.Uses(v)) > 0 || c.isOutput(v) || c.G.Captured(v)) {
			return true
		}
	}
	return false
}

// SweepConstants removes constants that nothing reads, among them those that IR 3 lists as inputs as well.
var SweepConstants = Pass{
	Name:  "sweep-constants",
	Doc:   "Removes constants that nothing reads.",
	sweep: sweepConstants,
}

func sweepConstants(c *Context) error {
	g := c.G
	gone := 0
	for _, v := range g.Values() {
		if g.Const(v) == nil || len(g.Uses(v)) > 0 || c.isOutput(v) || g.Captured(v) {
			continue
		}
		if g.IsInput(v) {
			kept := g.Inputs[:0:0]
			for _, in := range g.Inputs {
				if in != v {
					kept = append(kept, in)
				}
			}
			g.Inputs = kept
		}
		g.RemoveValue(v)
		gone++
	}
	if gone > 0 {
		c.log.Applied = append(c.log.Applied, Entry{Pass: c.pass, What: fmt.Sprintf("%d constants nothing reads", gone)})
	}
	return nil
}
