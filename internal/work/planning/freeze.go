package planning

import (
	"qwb/calib"
	"qwb/graph"
	"qwb/quantizer/overlay"
	"qwb/quantizer/tqc"
)

// tuned gives the derivation the graph of a reference with what was tuned, nil for nothing.
func (d *Derivation) tuned(reference *graph.Graph, o *overlay.Overlay) {
	d.Graph, d.Reference, d.Overlay = reference, reference, o
	if o != nil {
		d.Graph, _ = o.Apply(reference, nil)
	}
}

// applied lists by slot the entries of weights whose values the graph has.
func (d *Derivation) applied(set *tqc.Set) map[tqc.SlotID]*overlay.Entry {
	list := map[tqc.SlotID]*overlay.Entry{}
	if d.Overlay == nil {
		return list
	}
	for i := range d.Overlay.Entries {
		e := &d.Overlay.Entries[i]
		id, ok := d.Graph.LookupNode(e.Node)
		if !ok {
			continue
		}
		if s := set.Input(id, e.Input); s != tqc.NoSlot && e.Input == graph.WeightInput && d.Graph.Const(set.Slot(s).Value) == e.Value {
			list[s] = e
		}
	}
	return list
}

// frozen says where the scales of tuned weights come from: those they were made for where their scheme is the same, else, since the value
// does not fit then, the weight before tuning.
func (d *Derivation) frozen(set *tqc.Set) func(sl *tqc.Slot) calib.Frozen {
	entries := d.applied(set)
	return func(sl *tqc.Slot) calib.Frozen {
		switch e := entries[sl.ID]; {
		case e == nil:
			return calib.Frozen{}
		case e.Freezes(&sl.Config):
			return calib.Frozen{Params: tqc.Params{Scale: e.Scale, ZeroPoint: e.ZeroPoint}}
		}
		return calib.Frozen{Base: d.Reference.Const(sl.Value)}
	}
}

// freeze gives the weights of an imported set the scales they were tuned for and lists their nodes.
func (d *Derivation) freeze(set *tqc.Set) (nodes []graph.NodeID, err error) {
	entries := d.applied(set)
	for id := range tqc.SlotID(set.NumSlots()) {
		e, sl := entries[id], set.Slot(id)
		if e == nil || set.Root(id) != id || !sl.State().Quantizes() || !e.Freezes(&sl.Config) {
			continue
		}
		if err := set.Render(id, tqc.Params{Scale: e.Scale, ZeroPoint: e.ZeroPoint}); err != nil {
			return nil, d.Graph.ErrorAt("tuned values", sl.Node, err)
		}
		nodes = append(nodes, sl.Node)
	}
	return nodes, nil
}
