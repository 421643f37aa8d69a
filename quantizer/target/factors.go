package target

import (
	"slices"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// signedScheme is the place in a row's schemes of activations of the first one that is symmetric and signed, with one scale that is known
// before the network runs; -1 for none.
func (t *Target) signedScheme(op *Op) int {
	return slices.IndexFunc(t.schemesOf(op).Activation, func(s tqc.Scheme) bool {
		return s == tqc.Scheme{Type: qmath.Integers, Bits: t.Activation.Bits}
	})
}

// SignedFactor reports whether input i of node id has to be symmetric and signed for integers to be multiplied: see Op.SignedFactors and
// Op.SignedInput. An input of the network is left as it is, pixels above all, and what convolutions with groups alone read, which tiles do
// not multiply.
func (b *Bound) SignedFactor(id graph.NodeID, i int) bool {
	g, n := b.Graph, b.Graph.Node(id)
	op := b.Ops[id]
	switch {
	case op == nil || i > 1 || g.Const(n.Input(i)) != nil:
		return false
	case i == 0 && op.SignedInput && n.AttrInt("group", 1) == 1 && g.Producer(n.Input(0)) != graph.NoNode && !g.NeverNegative(n.Input(0)):
		return true
	}
	return op.SignedFactors && (i == 1 || g.Const(n.Input(1)) == nil && !g.NeverNegative(n.Input(0)))
}

// SignedConfig is the policy of what SignedFactor reports.
func (b *Bound) SignedConfig(id graph.NodeID) tqc.Config {
	op := b.Ops[id]
	return under(b.schemesOf(op).Activation[b.signedScheme(op)], b.Activation).OfActivation()
}

// MultipliesIntegers reports whether the factors of node id, where they are integers, have the form in which the target multiplies them:
// by their widths and scales in set, which a convolution has to know before the network runs unless its row has others.
func (b *Bound) MultipliesIntegers(id graph.NodeID, set *tqc.Set) bool {
	n := b.Graph.Node(id)
	if graph.Slides(n.Op) && slices.ContainsFunc(b.grids(n, set), (*tqc.Config).RunTime) && !b.namesRunTime(id) {
		return false
	}
	return !b.OtherWidth(id, set) && b.signedFactors(n, set)
}

// AtRunTime reports whether node id may have scales of run time: the kernels of rows that name such multiply by constants alone.
func (b *Bound) AtRunTime(id graph.NodeID) bool {
	return !b.namesRunTime(id) || b.Graph.Const(b.Graph.Node(id).Input(graph.WeightInput)) != nil
}

// namesRunTime reports whether the row of a node, not the target as a whole, names scales of run time.
func (b *Bound) namesRunTime(id graph.NodeID) bool {
	return slices.ContainsFunc(b.Ops[id].Schemes.Activation, func(s tqc.Scheme) bool { return s.Dynamic })
}

// OtherWidth reports whether node id multiplies integers that have another width than the target's products have.
func (b *Bound) OtherWidth(id graph.NodeID, set *tqc.Set) bool {
	macs, _ := b.Graph.MACsAtLeast(id)
	return macs > 0 && b.Export.EightBits &&
		slices.ContainsFunc(b.grids(b.Graph.Node(id), set), func(c *tqc.Config) bool { return c.Integer() && c.Bits != 8 })
}

// grids are the configurations of a node's factors that quantize, or will: its own, and those of what computes them.
func (b *Bound) grids(n *graph.Node, set *tqc.Set) (list []*tqc.Config) {
	var slots []tqc.SlotID
	for i, v := range n.Inputs[:min(2, len(n.Inputs))] {
		slots = append(slots, set.Input(n.ID, i))
		if v != graph.NoValue && b.Graph.Producer(v) != graph.NoNode {
			p := b.Graph.Node(b.Graph.Producer(v))
			slots = append(slots, set.Output(p.ID, slices.Index(p.Outputs, v)))
		}
	}
	for _, s := range slots {
		if s == tqc.NoSlot {
			continue
		}
		if state := set.Slot(s).State(); state != tqc.FP32 && state != tqc.Overlapped {
			list = append(list, &set.Slot(s).Config)
		}
	}
	return list
}

// signedFactors reports whether factors that must be symmetric and signed are.
func (b *Bound) signedFactors(n *graph.Node, set *tqc.Set) bool {
	id, op := n.ID, b.Ops[n.ID]
	if op == nil || !op.SignedFactors {
		return true
	}
	for i := range min(2, len(n.Inputs)) {
		s := set.Input(id, i)
		if b.Graph.Const(n.Inputs[i]) != nil || i == 0 && b.Graph.Const(n.Inputs[1]) != nil || s == tqc.NoSlot ||
			set.Slot(s).State() == tqc.FP32 || !set.Slot(s).Config.NeedsScale() {
			continue
		}
		c, p := &set.Slot(s).Config, set.Params(s)
		// A second factor that is unsigned becomes a signed one where its zero point is in the middle.
		middle := i == 1 && c.QMin == 0 && c.Policy.Has(tqc.Symmetric)
		if !middle && (i == 1 && c.QMin >= 0 || slices.ContainsFunc(p.ZeroPoint, func(z int32) bool { return z != 0 })) {
			return false
		}
	}
	return true
}
