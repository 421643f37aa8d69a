package analysis

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// clampOps are computed with the operator before them, in float too: every engine does.
var clampOps = []string{"Relu", "Clip"}

// groups lists the operators that take time, each with what is computed together with it behind it. Shapes and indices take none, nor do
// views.
func (c *costing) groups() [][]graph.NodeID {
	var list [][]graph.NodeID
	at := map[graph.NodeID]int{}
	for _, id := range c.order {
		if c.set.Domains[id] == tqc.DomainSOI || isView(c.g.Node(id)) {
			continue
		}
		head := c.head(id)
		i, ok := at[head]
		if head == id || !ok {
			i = len(list)
			list = append(list, nil)
		}
		at[id] = i
		list[i] = append(list[i], id)
	}
	return list
}

// head is the operator that a node is computed together with, itself where it stands alone.
func (c *costing) head(id graph.NodeID) graph.NodeID {
	if h := c.set.Fused[id]; h != graph.NoNode {
		return h
	}
	n := c.g.Node(id)
	if !c.set.Domains[id].Float() || !slices.Contains(clampOps, n.Op) {
		return id
	}
	p := c.g.Producer(n.Input(0))
	if _, sole := c.g.SoleUse(n.Input(0)); p == graph.NoNode || !sole || c.set.Domains[p] != c.set.Domains[id] {
		return id
	}
	if macs, _ := c.g.MACsAtLeast(p); macs == 0 {
		return id
	}
	return p
}

// seconds is the time of a group: its arithmetic or its memory, whichever is longer, and the overhead of an operator.
func (c *costing) seconds(nodes []graph.NodeID, d *Device) (float64, error) {
	var compute, bits float64
	inner := map[graph.ValueID]bool{}
	for _, id := range nodes[:len(nodes)-1] {
		for _, v := range c.g.Node(id).Outputs {
			inner[v] = true
		}
	}
	for k, id := range nodes {
		if macs, _ := c.g.MACsAtLeast(id); macs > 0 {
			f := c.arithmetic(id)
			gops, ok := d.speed(f)
			if !ok {
				return 0, fmt.Errorf("device %q has no speed for %s, nor for a format that could take its place", d.Name, f.name)
			}
			compute += 2 * float64(macs) / gops / 1e9
		}
		n := c.g.Node(id)
		for i, v := range n.Inputs {
			switch {
			case v == graph.NoValue || inner[v] || !target.IsFloat(c.g, v):
			case c.g.Const(v) != nil:
				_, b, _ := c.stored(id, i)
				bits += float64(b)
			default:
				bits += float64(c.elements(v) * int64(c.format(id, c.set.Input(id, i)).bits))
			}
		}
		if k == len(nodes)-1 {
			for _, v := range n.Outputs {
				if v != graph.NoValue && target.IsFloat(c.g, v) {
					bits += float64(c.elements(v) * int64(c.kept(v).bits))
				}
			}
		}
	}
	return max(compute, d.move(bits/8)) + d.OverheadUS*1e-6, nil
}

// kept is the format in which a computed tensor stands in memory: that in which it is computed, or where no quantizer stands there, that of
// the first integer operator that reads it.
func (c *costing) kept(v graph.ValueID) numberFormat {
	p := c.g.Producer(v)
	if p == graph.NoNode {
		f, _ := formatNamed("fp32")
		return f
	}
	i := slices.Index(c.g.Node(p).Outputs, v)
	out := c.set.Output(p, i)
	if c.set.Domains[p] == tqc.DomainInt && (out == tqc.NoSlot || c.set.Slot(out).State() == tqc.FP32) {
		for _, u := range c.g.Uses(v) {
			if c.set.Domains[u.Node] == tqc.DomainInt && target.DataInput(c.g, u.Node, u.Index) {
				return c.format(u.Node, c.set.Input(u.Node, u.Index))
			}
		}
	}
	return c.format(p, out)
}

// conversions is the time for tensors that are read in another format than they stand in: each such format once.
func (c *costing) conversions(d *Device) (seconds float64) {
	one := func(v graph.ValueID) {
		if v == graph.NoValue || c.g.Const(v) != nil || !target.IsFloat(c.g, v) {
			return
		}
		from := c.kept(v)
		done := []numberFormat{from}
		convert := func(to numberFormat) {
			if slices.Contains(done, to) {
				return
			}
			done = append(done, to)
			n := c.elements(v)
			seconds += d.Conversion(n, from.bits, to.bits)
		}
		if c.g.IsOutput(v) {
			fp32, _ := formatNamed("fp32")
			convert(fp32)
		}
		for _, u := range c.g.Uses(v) {
			if c.set.Domains[u.Node] == tqc.DomainSOI || !target.DataInput(c.g, u.Node, u.Index) || isView(c.g.Node(u.Node)) {
				continue
			}
			convert(c.format(u.Node, c.set.Input(u.Node, u.Index)))
		}
	}
	for _, v := range c.g.Inputs {
		one(v)
	}
	for _, id := range c.order {
		for _, v := range c.g.Node(id).Outputs {
			one(v)
		}
	}
	return seconds
}
