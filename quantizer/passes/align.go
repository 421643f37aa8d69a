package passes

import (
	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Align gives tensors of an operator one scale, as the target's row of the operator has it (target.Align), or what is decided instead. A
// tensor takes part where that takes its scale from nobody else: it is read by this operator only, its scale is not prescribed, its
// integers are of the same scheme, and, if it is the output, no activation is fused behind (whose grid would cut off what the activation
// cuts off). With Overlap it takes part as well if others read it: they get the common scale too. Tensors that do not take part keep their
// scale and are requantized by the operator.
var Align = Pass{Name: "align", Doc: "tensors of Concat, Add, pools and alike share one scale, as the target has it", Run: align}

func align(c *Context) error {
	for _, id := range c.integers() {
		var err error
		switch c.alignment(id) {
		case target.AlignOutput:
			err = c.alignInputs(id, c.Set.Output(id, 0))
		case target.AlignInput:
			err = c.alignOutput(id)
		case target.AlignLarge:
			err = c.alignInputs(id, c.large(id))
		}
		if err != nil {
			return c.Graph.ErrorAt("configure", id, err)
		}
	}
	return nil
}

// alignment is how the tensors of a node share scales.
func (c *Context) alignment(id graph.NodeID) target.Align {
	if c.Align != nil {
		return c.Align(id)
	}
	return c.Bound.Ops[id].Align
}

// alignInputs lets the inputs of a node borrow the scale of a slot, which calibration then finds for the ranges of all of them.
func (c *Context) alignInputs(id graph.NodeID, master tqc.SlotID) error {
	if !c.waiting(master) {
		return nil
	}
	for _, i := range c.Bound.DataInputs(id) {
		s := c.alignable(id, c.Set.Input(id, i))
		if s == tqc.NoSlot || c.Set.Root(s) == c.Set.Root(master) || !c.alike(s, master) {
			continue
		}
		if err := c.Set.Borrow(s, master); err != nil {
			return err
		}
	}
	return nil
}

// alignOutput lets the output of a node borrow the scale of input 0.
func (c *Context) alignOutput(id graph.NodeID) error {
	in, out := c.Set.Input(id, 0), c.Set.Output(id, 0)
	if in == tqc.NoSlot || c.Set.Slot(in).State() == tqc.FP32 || !c.waiting(out) || c.Set.Root(in) == c.Set.Root(out) || !c.alike(out, in) {
		return nil
	}
	if c.Set.Slot(out).Config.Observer == tqc.ObserverFixed {
		return nil
	}
	return c.Set.Borrow(out, in)
}

// large returns the slot that holds the common scale of a node's inputs: that of the first computed one that takes part.
func (c *Context) large(id graph.NodeID) tqc.SlotID {
	for _, i := range c.Bound.DataInputs(id) {
		if s := c.alignable(id, c.Set.Input(id, i)); s != tqc.NoSlot && !c.Set.Slot(s).Weight {
			return s
		}
	}
	return tqc.NoSlot
}

func (c *Context) alike(a, b tqc.SlotID) bool {
	return c.Set.Slot(a).Config.SameScheme(c.Set.Slot(b).Config)
}

// alignable returns the slot that quantizes what input s of node id reads, if it may take another scale, else NoSlot.
func (c *Context) alignable(id graph.NodeID, s tqc.SlotID) tqc.SlotID {
	if s == tqc.NoSlot {
		return tqc.NoSlot
	}
	v := c.Set.Slot(s).Value
	root := c.Set.Root(s)
	r := c.Set.Slot(root)
	if !c.waiting(root) || r.Config.Observer == tqc.ObserverFixed {
		return tqc.NoSlot
	}
	if r.Weight && r.Value == v || c.Bound.Ops[id].Overlap {
		return root
	}
	if r.Value != v || c.Graph.IsOutput(v) || c.Graph.Captured(v) {
		return tqc.NoSlot
	}
	for _, u := range c.Graph.Uses(v) {
		if u.Node != id {
			return tqc.NoSlot
		}
	}
	return root
}
