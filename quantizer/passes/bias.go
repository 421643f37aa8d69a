package passes

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Bias marks the integer biases as waiting for the scales of their operator.
var Bias = Pass{Name: "bias", Doc: "integer biases wait for input scale * weight scale; those of sums that are no integers of one " +
	"scale stay float", Run: bias}

func bias(c *Context) error {
	for _, id := range c.integers() {
		if s := biasSlot(c.Set, c.Bound, id); c.waiting(s) {
			state := tqc.PassiveInit
			if !c.integerSum(id) {
				state = tqc.FP32
			}
			if err := c.Set.Advance(s, state); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}

// integerSum reports whether each channel of an operator sums integers of one scale that is known, so that an integer can be the bias.
// With weights in groups a channel has many scales; floats and scales of run time have no integer sum.
func (c *Context) integerSum(id graph.NodeID) bool {
	for i := range 2 {
		s := c.Set.Input(id, i)
		if s == tqc.NoSlot || c.Set.Slot(s).State() == tqc.FP32 {
			return i == 1 // a computed weight
		}
		if cfg := &c.Set.Slot(s).Config; !cfg.Integer() || cfg.RunTime() || cfg.Policy.Has(tqc.PerGroup) {
			return false
		}
	}
	return true
}

func biasSlot(set *tqc.Set, b *target.Bound, id graph.NodeID) tqc.SlotID {
	if b.Ops[id] == nil || b.Ops[id].Role != target.Weighted {
		return tqc.NoSlot
	}
	return set.Input(id, graph.BiasOf(b.Graph.Node(id)))
}

// SolveBias gives the integer biases their scales once activations and weights have theirs: scale = input scale * weight
// scale per channel, zero point 0. Where a bias would not fit into 32 bits, the weight scale of that channel is raised until it
// does (the weights then use fewer of their integers; such a channel's weights are tiny anyway) and a warning says so. Biases
// whose operator has no scales yet are left waiting. It may be called again after scales have changed.
func SolveBias(g *graph.Graph, set *tqc.Set) ([]tqc.Warning, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	return solve(g, set, order)
}

// SolveBiasOf is SolveBias for some operators; others keep their biases.
func SolveBiasOf(g *graph.Graph, set *tqc.Set, nodes []graph.NodeID) ([]tqc.Warning, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	return solve(g, set, slices.DeleteFunc(order, func(id graph.NodeID) bool { return !slices.Contains(nodes, id) }))
}

func solve(g *graph.Graph, set *tqc.Set, nodes []graph.NodeID) ([]tqc.Warning, error) {
	var warnings []tqc.Warning
	for _, id := range nodes {
		s := set.Input(id, graph.BiasInput)
		if set.Domains[id] != tqc.DomainInt || s == tqc.NoSlot || !isBias(set.Slot(s)) {
			continue
		}
		w, err := solveBias(g, set, id, s)
		if err != nil {
			return nil, g.ErrorAt("configure", id, err)
		}
		warnings = append(warnings, w...)
	}
	return warnings, nil
}

// isBias reports whether a slot holds an integer bias: a parameter that is never observed and has a scale of its own.
func isBias(sl *tqc.Slot) bool {
	return sl.Weight && sl.Config.Observer == tqc.ObserverNone && sl.Config.Bits == 32 &&
		(sl.State() == tqc.PassiveInit || sl.State() == tqc.Passive)
}

func solveBias(g *graph.Graph, set *tqc.Set, id graph.NodeID, s tqc.SlotID) ([]tqc.Warning, error) {
	xs, ws := set.Input(id, 0), set.Input(id, 1)
	x, w := set.Params(xs), set.Params(ws)
	if !x.Ready() || !w.Ready() {
		return nil, nil
	}
	b, f := g.Const(g.Node(id).Inputs[graph.BiasInput]).F32(), set.Slot(s).Config.Format
	wp := tqc.Params{Scale: append([]float32(nil), w.Scale...), ZeroPoint: w.ZeroPoint}
	scales := make([]float32, len(wp.Scale))
	raised, most := 0, 1.0
	for c := range scales {
		members := b
		if len(scales) > 1 {
			members = b[c : c+1]
		}
		scales[c] = qmath.BiasScale(x.Scale[0], wp.Scale[c])
		if fits(members, scales[c], f) {
			continue
		}
		old := wp.Scale[c]
		wp.Scale[c], scales[c] = raise(members, x.Scale[0], old, f)
		raised, most = raised+1, max(most, float64(wp.Scale[c])/float64(old))
	}
	var warnings []tqc.Warning
	if raised > 0 {
		width := bits.Len32(uint32(f.QMax)) + 1
		text := fmt.Sprintf("the bias does not fit into %d bits: the weight scale was raised", width)
		if len(scales) > 1 {
			text = fmt.Sprintf("the bias of %d of %d channels does not fit into %d bits: their weight scales were raised", raised,
				len(scales), width)
		}
		warnings = append(warnings, tqc.Warning{Node: g.Node(id).Name, Value: most, Text: text})
		if err := set.Render(set.Root(ws), wp); err != nil {
			return nil, err
		}
	}
	return warnings, set.Render(s, tqc.Params{Scale: scales, ZeroPoint: make([]int32, len(scales))})
}

func fits(b []float32, scale float32, f qmath.Format) bool {
	if !qmath.Representable(scale) || scale < 0x1p-126 {
		return false
	}
	for _, v := range b {
		if q, ok := qmath.QuantizeBias(v, scale); !ok || q < f.QMin || q > f.QMax {
			return false
		}
	}
	return true
}

// raise returns the smallest weight scale of the form old*2^k, k > 0, with which all of b fits, and the bias scale it makes.
// Doubling keeps the codes of weights that are exact multiples exact, and leaves headroom of up to one bit.
func raise(b []float32, x, old float32, f qmath.Format) (w, scale float32) {
	for w = max(old, math.SmallestNonzeroFloat32) * 2; ; w *= 2 {
		if scale = qmath.BiasScale(x, w); fits(b, scale, f) || math.IsInf(float64(w), 0) {
			return w, scale
		}
	}
}
