package qdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Release returns a copy of the set of an imported graph in which nodes that are forced to float are float. By the rules of dispatch others
// go with them: what they are fused with, and what does not sum products and would read their real numbers. A tensor that such a node
// brought to its grid is brought to the same grid where it is read. Weights of float nodes are the dequantized ones.
func Release(g *graph.Graph, set *tqc.Set, t *target.Target, forced ...dispatch.Forced) (*tqc.Set, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	r := &releaser{g: g, t: t, set: set.Clone(), order: order, why: make([]string, g.NumNodes()), domain: make([]tqc.Domain, g.NumNodes())}
	for _, f := range forced {
		if f.Domain.Float() {
			r.force(f)
		}
	}
	r.spread()
	if err := r.keep(forced); err != nil {
		return nil, err
	}
	saved := r.slots()
	for _, id := range order {
		if r.why[id] != "" {
			r.set.Domains[id], r.set.Why[id], r.set.Fused[id] = r.domain[id], r.why[id], graph.NoNode
		}
	}
	if err := r.set.Restore(saved); err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	return r.set, nil
}

// releaser is the state of one Release.
type releaser struct {
	g     *graph.Graph
	t     *target.Target
	set   *tqc.Set // of the file, but for domains at the end
	order []graph.NodeID
	why   []string // by node: why it is float now; empty for those that stay as they are
	// domain is by node the float that those with a reason are computed in.
	domain []tqc.Domain
}

// force marks nodes with the nodes they are computed together with.
func (r *releaser) force(f dispatch.Forced) {
	reason := f.Who
	if f.Why != "" {
		reason += ": " + f.Why
	}
	for _, id := range f.Nodes {
		if r.set.Domains[id] == tqc.DomainSOI {
			continue
		}
		if r.why[id] == "" {
			r.why[id], r.domain[id] = reason, f.Domain
		}
		head := id
		if h := r.set.Fused[id]; h != graph.NoNode {
			head = h
		}
		for _, other := range r.set.Together(head, r.order) {
			if r.why[other] == "" {
				r.why[other], r.domain[other] = fmt.Sprintf("%s: goes with %q", f.Who, r.g.Node(id).Name), f.Domain
			}
		}
	}
}

// keep makes sure that what is forced to integers still is on them: the file has them, and nothing took them along.
func (r *releaser) keep(forced []dispatch.Forced) error {
	for _, f := range forced {
		if f.Domain.Float() {
			continue
		}
		for _, id := range f.Nodes {
			if r.integer(id) {
				continue
			}
			why := r.why[id]
			if why == "" {
				why = r.set.Why[id]
			}
			return r.g.ErrorAt("dispatch", id, fmt.Errorf("cannot run on integers, as is wanted (%s: %s): %s", f.Who, f.Why, why))
		}
	}
	return nil
}

// integer reports whether a node still runs on integers.
func (r *releaser) integer(id graph.NodeID) bool {
	return r.set.Domains[id] == tqc.DomainInt && r.why[id] == ""
}

// spread marks integer nodes that do not sum products and read what a marked node computes.
func (r *releaser) spread() {
	for _, id := range r.order {
		if !r.integer(id) || r.set.Fused[id] != graph.NoNode {
			continue
		}
		if op := r.t.Op(r.g.Node(id)); op != nil && op.Role == target.Weighted {
			continue
		}
		for i, v := range r.g.Node(id).Inputs {
			if v == graph.NoValue || !target.DataInput(r.g, id, i) {
				continue
			}
			if p := r.g.Producer(v); p != graph.NoNode && r.why[p] != "" {
				r.force(dispatch.Forced{Nodes: []graph.NodeID{id}, Who: dispatch.ByConservative, Why: fmt.Sprintf("goes with %q", r.g.Node(p).Name)})
				break
			}
		}
	}
}

// slots are the stored forms of all slots without the marked nodes.
func (r *releaser) slots() []tqc.Saved {
	n := r.set.NumSlots()
	saved := make([]tqc.Saved, n)
	for i := range saved {
		s := tqc.SlotID(i)
		if saved[i] = r.set.Save(s); r.released(s) {
			saved[i] = tqc.Saved{State: tqc.FP32, Root: s}
		}
	}
	leaders := r.leaders()
	for i := range saved {
		s, sv := tqc.SlotID(i), &saved[i]
		if sv.State == tqc.FP32 {
			continue
		}
		if l := leaders[sv.Root]; l == s {
			sv.State, sv.Params, sv.Root = tqc.Activated, *r.set.Params(s), s
			continue
		} else if l != tqc.NoSlot {
			sv.Root = l
		}
		if sv.State == tqc.Overlapped && r.bare(s) {
			sv.State = tqc.Passive
		}
	}
	return saved
}

// leaders returns, by slot, the one that takes over what a slot of a marked node governed, NoSlot for the others: one that quantizes
// anyway, else the first that has to now.
func (r *releaser) leaders() []tqc.SlotID {
	list := slices.Repeat([]tqc.SlotID{tqc.NoSlot}, r.set.NumSlots())
	for _, quantizing := range []bool{true, false} {
		for i := range list {
			s := tqc.SlotID(i)
			root := r.set.Root(s)
			if r.released(s) || !r.released(root) || list[root] != tqc.NoSlot {
				continue
			}
			if state := r.set.Slot(s).State(); state.Quantizes() == quantizing && (quantizing || r.bare(s)) {
				list[root] = s
			}
		}
	}
	return list
}

// released reports whether a slot belongs to a marked node.
func (r *releaser) released(s tqc.SlotID) bool { return r.why[r.set.Slot(s).Node] != "" }

// bare reports whether a slot is an input of integers whose tensor a marked node computes.
func (r *releaser) bare(s tqc.SlotID) bool {
	sl := r.set.Slot(s)
	if sl.Kind != tqc.Input {
		return false
	}
	p := r.g.Producer(sl.Value)
	return p != graph.NoNode && r.why[p] != ""
}
