package search

import (
	"slices"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// weight is the slot of an operator's quantized weight, false where it has none that may change.
func (m *Mixture) weight(id graph.NodeID) (tqc.SlotID, bool) {
	if op := m.Bound.Ops[id]; op == nil || op.Role != target.Weighted {
		return tqc.NoSlot, false
	}
	for _, s := range m.Start.Set.Inputs(id) {
		if s == tqc.NoSlot {
			continue
		}
		if sl := m.Start.Set.Slot(s); sl.Weight && sl.State() != tqc.FP32 && sl.Config.Observer != tqc.ObserverNone {
			cell := &m.Start.Table.Slots[s]
			return s, !cell.Selected("weights") && !cell.Selected("scale")
		}
	}
	return tqc.NoSlot, false
}

// activations are the quantized slots of an operator that are no constants.
func (m *Mixture) activations(id graph.NodeID) (list []tqc.SlotID) {
	for _, s := range append(slices.Clone(m.Start.Set.Inputs(id)), m.Start.Set.Outputs(id)...) {
		if s == tqc.NoSlot {
			continue
		}
		if sl := m.Start.Set.Slot(s); !sl.Weight && sl.State() != tqc.FP32 {
			list = append(list, s)
		}
	}
	return list
}

// become is what has to be decided about an operator for it to have a format; false where the target, or a decision, does not let it.
func (m *Mixture) become(id graph.NodeID, f numberFormat) (p decision.Properties, ok bool) {
	if f.domain != "" && (m.D.Target.Float == target.FloatAbsent || wanted(m.Start, m.Start.Graph, id)) {
		return p, false
	}
	switch {
	case !f.words.Empty():
		if f.words.Weights != (tqc.Scheme{}) && !m.weightCan(id, f.words.Weights) || f.words.Activations != (tqc.Scheme{}) &&
			!m.activationsCan(id, f.words.Activations) {
			return p, false
		}
		return f.words, true
	case f.domain != "":
		return decision.Properties{Domain: f.domain}, true
	case m.D.Imported != nil:
		return p, false
	}
	schemes := m.Bound.SchemesOf(m.Start.Graph.Node(id))
	p.Activations = m.first(schemes.Activation, f.name, m.activations(id), func(s tqc.Scheme) bool { return m.activationsCan(id, s) })
	// Weights of more than eight bits cost twice as much for next to nothing: 16 is for activations, unless those cannot have it.
	wide := p.Activations.Bits > 8 || f.wide && slices.ContainsFunc(m.activations(id), func(s tqc.SlotID) bool {
		return m.Start.Set.Slot(s).Config.Bits > 8
	})
	if w, ok := m.weight(id); ok && !wide {
		p.Weights = m.first(schemes.Weight, f.name, []tqc.SlotID{w}, func(s tqc.Scheme) bool { return m.weightCan(id, s) })
	}
	return p, !p.Empty()
}

// first is the first scheme of a format that slots can have, none where all of them have the format already.
func (m *Mixture) first(list []tqc.Scheme, format string, slots []tqc.SlotID, can func(tqc.Scheme) bool) tqc.Scheme {
	has := func(s tqc.SlotID) bool { return plainName(m.Start.Set.Slot(s).Config.FormatName()) == format }
	for _, s := range list {
		if plainName(s.Format()) == format && !slices.ContainsFunc(slots, has) && can(s) {
			return s
		}
	}
	return tqc.Scheme{}
}

// weightCan reports whether the weight of an operator may have a scheme that is not its own.
func (m *Mixture) weightCan(id graph.NodeID, s tqc.Scheme) bool {
	slot, ok := m.weight(id)
	if !ok || target.Can(m.Bound.SchemesOf(m.Start.Graph.Node(id)).Weight, s, "") != nil {
		return false
	}
	sl := m.Start.Set.Slot(slot)
	if own, err := tqc.SchemeOf(sl.Config); err != nil || own == s {
		return false
	}
	c, err := s.Apply(sl.Config)
	if err != nil {
		return false
	}
	c = target.AlongWeight(m.Start.Graph, id, sl.Index, c)
	return !c.Policy.Has(tqc.PerTensor) || !s.Channel && s.Group == 0
}

// activationsCan reports whether the tensors that an operator reads and writes may have a scheme that is not their own: every operator that
// shares one has to take it. Where an operator's tensors have to be of one type, none of them can have another one than its neighbours.
func (m *Mixture) activationsCan(id graph.NodeID, s tqc.Scheme) bool {
	if m.Bound.Export.OneType {
		return false
	}
	changes := false
	for _, slot := range m.activations(id) {
		for _, member := range m.members[m.Start.Set.Root(slot)] {
			sl := m.Start.Set.Slot(member)
			cell := &m.Start.Table.Slots[member]
			if sl.Weight || sl.State() == tqc.FP32 {
				continue
			}
			if sl.Config.Observer == tqc.ObserverFixed || cell.Selected("activations") || cell.Selected("scale") ||
				target.Can(m.Bound.SchemesOf(m.Start.Graph.Node(sl.Node)).Activation, s, "") != nil {
				return false
			}
			own, err := tqc.SchemeOf(sl.Config)
			changes = changes || err == nil && own != s
		}
	}
	return changes
}
