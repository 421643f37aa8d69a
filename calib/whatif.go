package calib

import (
	"fmt"

	"qwb/graph"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// SharedState is what is known of all tensors that are quantized with the scale of a root slot, which is of an activation.
func SharedState(g *graph.Graph, set *tqc.Set, stats *Stats, root tqc.SlotID) (*observers.State, error) {
	r := &renderer{g: g, set: set, stats: stats}
	return r.state(r.activation(set.Slot(root)).values)
}

// Try returns the range that an observer chooses from what was observed of an activation, with what that comes to under a policy.
func Try(st *observers.State, c tqc.Config, o tqc.Observer, own ...*observers.Method) (observers.Range, tqc.Params, error) {
	if o == tqc.ObserverAuto {
		return observers.Range{}, tqc.Params{}, fmt.Errorf("observer %s tries others on samples, not on statistics alone", o)
	}
	if err := o.Valid(); err != nil {
		return observers.Range{}, tqc.Params{}, err
	}
	r := &renderer{cfg: RenderConfig{Own: own}}
	m, err := r.method(o)
	if err != nil {
		return observers.Range{}, tqc.Params{}, err
	}
	_, parameter, _ := o.Split() // 0 where there is none
	t, err := try(st, m, c, parameter)
	if err != nil {
		return observers.Range{}, tqc.Params{}, fmt.Errorf("%s: %w", o, err)
	}
	return t.ranges[0], t.params, nil
}
