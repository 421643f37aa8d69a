package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// configure makes the slots that stand for pairs INITIAL, with the schemes of the file.
func (c *configurer) configure() error {
	order, err := c.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	c.bound.Order = order
	c.set = tqc.NewSet(c.g)
	for _, id := range order {
		c.set.Why[id], c.set.Fused[id] = c.why[id], c.fused[id]
		switch {
		case c.integer[id]:
			c.set.Domains[id] = tqc.DomainInt
		case c.soi[id]:
			c.set.Domains[id] = tqc.DomainSOI
		}
	}
	for _, id := range order {
		if !c.integer[id] {
			continue
		}
		if err := c.configureNode(id); err != nil {
			return c.g.ErrorAt(stage, id, err)
		}
	}
	return nil
}

func (c *configurer) configureNode(id graph.NodeID) error {
	for i, s := range c.set.Inputs(id) {
		if s == tqc.NoSlot {
			continue
		}
		v, use := c.set.Slot(s).Value, graph.Use{Node: id, Index: i}
		q := c.in[use]
		if q == nil && target.DataInput(c.g, id, i) {
			q = c.out[v] // it reads what the operator before it quantizes
		}
		if q == nil {
			continue
		}
		cfg := c.activation(q)
		if c.g.Const(v) != nil {
			c.set.Slot(s).Weight = true
			var err error
			if cfg, err = c.parameter(id, i, v, q); err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
		}
		if err := c.set.Configure(s, cfg); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		if err := tqc.CheckGranularity(c.g, id, i, cfg); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	for i, s := range c.set.Outputs(id) {
		if s == tqc.NoSlot {
			continue
		}
		if q := c.out[c.set.Slot(s).Value]; q != nil {
			if err := c.set.Configure(s, c.activation(q)); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
		}
	}
	return nil
}

// states gives the slots their scales, and lets those that share one borrow it or be governed, as the configuration of a target
// does.
func (c *configurer) states() error {
	for _, pass := range []func(graph.NodeID) error{c.fuse, c.simplify, c.share(), c.passive, c.align, c.bias} {
		for _, id := range c.bound.Order {
			if !c.integer[id] {
				continue
			}
			if err := pass(id); err != nil {
				return c.g.ErrorAt(stage, id, err)
			}
		}
	}
	c.free = c.set.Clone()
	for i := range c.free.NumSlots() {
		sl := c.free.Slot(tqc.SlotID(i))
		switch {
		case sl.State() != tqc.Initial:
		case sl.Weight:
			sl.Config.Observer = c.t.Weight.Observer
		default:
			sl.Config.Observer = c.t.Activation.Observer
		}
	}
	return c.render()
}

// waiting reports whether the slot exists and is INITIAL.
func (c *configurer) waiting(s tqc.SlotID) bool {
	return s != tqc.NoSlot && c.set.Slot(s).State() == tqc.Initial
}

// gridOf returns the grid that a slot brings its tensor to, nil for none.
func (c *configurer) gridOf(s tqc.SlotID) *grid {
	sl := c.set.Slot(s)
	if sl.Kind == tqc.Input {
		if q := c.in[graph.Use{Node: sl.Node, Index: sl.Index}]; q != nil {
			return q
		}
	}
	return c.out[sl.Value]
}

// source returns the output slot that computes v, NoSlot for inputs and constants.
func (c *configurer) source(v graph.ValueID) tqc.SlotID {
	p := c.g.Producer(v)
	if p == graph.NoNode {
		return tqc.NoSlot
	}
	for i, o := range c.g.Node(p).Outputs {
		if o == v {
			return c.set.Output(p, i)
		}
	}
	return tqc.NoSlot
}

// fuse lets the output of an activation govern the tensors between it and the operator it is fused with.
func (c *configurer) fuse(head graph.NodeID) error {
	if c.fused[head] != graph.NoNode {
		return nil
	}
	nodes := c.set.Together(head, c.bound.Order)
	out := c.set.Output(nodes[len(nodes)-1], 0)
	if len(nodes) == 1 || !c.waiting(out) {
		return nil
	}
	cfg := c.set.Slot(out).Config
	for k, id := range nodes {
		var inner []tqc.SlotID
		if k > 0 {
			for i, s := range c.set.Inputs(id) {
				if s != tqc.NoSlot && c.g.Const(c.set.Slot(s).Value) == nil && target.DataInput(c.g, id, i) {
					inner = append(inner, s)
				}
			}
		}
		if k < len(nodes)-1 {
			inner = append(inner, c.set.Output(id, 0))
		}
		for _, s := range inner {
			if err := c.set.Configure(s, cfg); err != nil {
				return err
			}
			if err := c.set.Dominate(s, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// simplify lets the output slot of an operator quantize for those that read it.
func (c *configurer) simplify(id graph.NodeID) error {
	for i, s := range c.set.Inputs(id) {
		if !c.waiting(s) || c.in[graph.Use{Node: id, Index: i}] != nil {
			continue
		}
		if err := c.set.Dominate(s, c.source(c.set.Slot(s).Value)); err != nil {
			return err
		}
	}
	return nil
}

// share gives the readers of one tensor by one grid the scale of the first of them.
func (c *configurer) share() func(graph.NodeID) error {
	leaders := map[graph.ValueID][]tqc.SlotID{}
	return func(id graph.NodeID) error {
	next:
		for _, s := range c.set.Inputs(id) {
			if !c.waiting(s) || c.set.Slot(s).Weight {
				continue
			}
			v := c.set.Slot(s).Value
			for _, l := range leaders[v] {
				if c.gridOf(l).same(c.gridOf(s)) {
					if err := c.set.Borrow(s, l); err != nil {
						return err
					}
					continue next
				}
			}
			leaders[v] = append(leaders[v], s)
		}
		return nil
	}
}

// passive lets outputs of operators that move elements borrow the scale of input 0 where the file has one for both.
func (c *configurer) passive(id graph.NodeID) error {
	op := c.t.Op(c.g.Node(id))
	if op == nil || op.Role != target.Passive || !c.t.Placement.Outputs() {
		return nil
	}
	in := c.set.Input(id, 0)
	if in == tqc.NoSlot || c.set.Slot(in).State() == tqc.FP32 {
		return nil
	}
	for _, s := range c.set.Outputs(id) {
		if c.waiting(s) && c.gridOf(s).axis < 0 && c.gridOf(s).same(c.gridOf(in)) {
			if err := c.set.Borrow(s, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// align lets inputs that an operator wants on the grid of its output, and that nobody else reads, borrow that.
func (c *configurer) align(id graph.NodeID) error {
	op := c.t.Op(c.g.Node(id))
	out := c.set.Output(id, 0)
	if op == nil || op.Align != target.AlignOutput || !c.waiting(out) {
		return nil
	}
	for i := range c.g.Node(id).Inputs {
		s := c.set.Input(id, i)
		if s == tqc.NoSlot || c.set.Slot(s).State() == tqc.FP32 {
			continue
		}
		root := c.set.Root(s)
		v := c.set.Slot(s).Value
		if root == out || !c.waiting(root) || c.set.Slot(root).Value != v || !c.gridOf(root).same(c.gridOf(out)) || c.readElsewhere(v, id) {
			continue
		}
		if err := c.set.Borrow(root, out); err != nil {
			return err
		}
	}
	return nil
}

func (c *configurer) readElsewhere(v graph.ValueID, id graph.NodeID) bool {
	if c.g.Const(v) != nil {
		return false
	}
	for _, u := range c.g.Uses(v) {
		if u.Node != id {
			return true
		}
	}
	return c.g.IsOutput(v) || c.g.Captured(v)
}

// bias marks integer biases: their scale follows from others.
func (c *configurer) bias(id graph.NodeID) error {
	if s := c.set.Input(id, graph.BiasInput); c.waiting(s) && c.set.Slot(s).Config.Bits == 32 {
		return c.set.Advance(s, tqc.PassiveInit)
	}
	return nil
}

// render hands out the scales.
func (c *configurer) render() error {
	for i := range c.set.NumSlots() {
		s := tqc.SlotID(i)
		sl := c.set.Slot(s)
		if sl.State() == tqc.FP32 || c.set.Root(s) != s {
			continue
		}
		q := c.gridOf(s)
		if err := c.set.Render(s, tqc.Params{Scale: q.scale, ZeroPoint: q.zero, Global: q.global}); err != nil {
			return c.g.ErrorAt(stage, sl.Node, err)
		}
	}
	return nil
}
