package lower

import (
	"slices"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/quantizer/tqc"
)

// unit is a group of nodes that become one step: an operator, what is added to its result and the activation behind it. Float
// nodes are units of their own; islands are made of them when they are emitted.
type unit struct {
	family   *family // nil: float
	nodes    []graph.NodeID
	residual graph.NodeID   // an Add among nodes, or NoNode
	skip     int            // its input that is not computed here
	acts     []graph.NodeID // the activation among nodes
	position int            // in the order of execution
	float    bool           // computed in float (as well): part of an island
	why      string         // there is no integer form; nothing where there is one
}

func (u *unit) head() graph.NodeID { return u.nodes[0] }
func (u *unit) last() graph.NodeID { return u.nodes[len(u.nodes)-1] }

// outputs are the values that the unit computes for others.
func (u *unit) outputs(g *graph.Graph) []graph.ValueID {
	var list []graph.ValueID
	for _, v := range g.Node(u.last()).Outputs {
		if v != graph.NoValue {
			list = append(list, v)
		}
	}
	return list
}

// has reports whether v is computed inside the unit.
func (u *unit) has(g *graph.Graph, v graph.ValueID) bool {
	p := g.Producer(v)
	return p != graph.NoNode && slices.Contains(u.nodes, p)
}

// group puts nodes together that are computed in one step.
func (c *compiler) group() error {
	for at, id := range c.order {
		u, err := c.joined(id)
		if err != nil {
			return err
		}
		if u == nil {
			u = &unit{residual: graph.NoNode}
			c.units = append(c.units, u)
			if c.set.Domains[id] != tqc.DomainInt || c.amongRunTime(id) {
				u.float = true
			} else if u.family = c.familyOf(id); u.family == nil {
				u.family, u.why = &simulatedFamily, c.g.Node(id).Op+" has no integer form"
				if !c.Partial {
					return c.fail(id, "%s", u.why)
				}
			}
		}
		u.nodes = append(u.nodes, id)
		u.position = at
		c.owner[id] = u
	}
	arrange.Stable(c.units, func(a, b *unit) int { return a.position - b.position })
	return nil
}

// joined returns the unit that a node belongs to because it is computed together with an earlier one, nil if it is not.
func (c *compiler) joined(id graph.NodeID) (*unit, error) {
	if c.set.Domains[id] != tqc.DomainInt {
		return nil, nil
	}
	if head := c.set.Fused[id]; head != graph.NoNode {
		u := c.owner[head]
		if u != nil && u.float && c.amongRunTime(id) {
			return nil, nil
		}
		if u == nil || u.family == nil {
			return nil, c.fail(id, "it is to be computed with %q, which is not an integer operator before it", c.g.Node(head).Name)
		}
		for i, v := range c.g.Node(id).Inputs {
			if v == graph.NoValue || c.g.Const(v) != nil || u.has(c.g, v) {
				continue
			}
			if err := c.argument(u, id, i); err != nil {
				return nil, err
			}
		}
		u.acts = append(u.acts, id)
		if u.family == &clampFamily {
			if _, _, limits, err := c.limits(u.acts); err != nil {
				return nil, err
			} else if !limits {
				u.family = &tableFamily
			}
		}
		return u, nil
	}
	return c.joinResidual(id)
}

// argument fails unless input i of a fused node is the argument of the unit's function, in the same integers (x * sigmoid(x)).
func (c *compiler) argument(u *unit, id graph.NodeID, i int) error {
	at, ok := c.g.Argument(u.head())
	if !ok || c.g.Node(u.head()).Inputs[at] != c.g.Node(id).Inputs[i] {
		return c.fail(id, "input %d is computed outside of the group it is fused with", i)
	}
	of, err := c.operand(u.head(), at)
	if err != nil {
		return err
	}
	if own, quantized, err := c.seen(id, i); err != nil {
		return err
	} else if quantized && own != of {
		return c.fail(id, "input %d has other integers than the same tensor at %q: %s and %s", i, c.g.Node(u.head()).Name, own, of)
	}
	return nil
}

// joinResidual returns the unit of the sum of products to which an Add adds a quantized tensor before rounding. That is so if
// nothing quantizes the sum in between.
func (c *compiler) joinResidual(id graph.NodeID) (*unit, error) {
	n := c.g.Node(id)
	if n.Op != "Add" || n.Domain != "" || len(n.Inputs) != 2 {
		return nil, nil
	}
	for main := range 2 {
		_, quantized, err := c.seen(id, main)
		if err != nil {
			return nil, err
		}
		_, other, err := c.seen(id, 1-main)
		if err != nil {
			return nil, err
		}
		if c.slotFormless(c.set.Input(id, main)) != "" || c.slotFormless(c.set.Input(id, 1-main)) != "" {
			continue
		}
		p := c.g.Producer(n.Inputs[main])
		if quantized || !other || p == graph.NoNode {
			continue
		}
		u := c.owner[p]
		_, sole := c.g.SoleUse(n.Inputs[main])
		if u != nil && u.family != nil && u.family.residual && u.last() == p && u.residual == graph.NoNode && len(u.acts) == 0 && sole {
			u.residual, u.skip = id, 1-main
			return u, nil
		}
	}
	return nil, nil
}
