package calib

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Candidate is what a method makes of the statistics of an activation.
type Candidate struct {
	Method tqc.Observer
	Params tqc.Params
}

// shares are the parameters of percentile that are tried beside its own: 0.1 %, 0.01 % and 0.001 % are cut off.
var shares = []float64{0.999, 0.9999, 0.99999}

// Candidates lists the scales that the methods find for root, a rendered activation of g, and the tensors that share its scale: each
// method, and percentile with several shares. Methods that cannot work on the statistics are left out,
// and those that find what one before them did. Class scores have none: how they do on some samples does not show how far others reach.
func Candidates(g *graph.Graph, set *tqc.Set, stats *Stats, root tqc.SlotID) ([]Candidate, error) {
	r := &renderer{g: g, set: set, stats: stats}
	sl := set.Slot(root)
	a := r.activation(sl)
	if own := findScores(g); slices.ContainsFunc(a.values, func(v graph.ValueID) bool { return own[v] }) {
		return nil, nil
	}
	state, err := r.state(a.values)
	if err != nil {
		return nil, r.at(sl, err)
	}
	var list []Candidate
	add := func(name tqc.Observer, m *observers.Method, parameter float64) {
		t, err := try(state, m, sl.Config, parameter)
		if err != nil {
			return
		}
		for _, c := range list {
			if sameScale(c.Params, t.params) {
				return
			}
		}
		list = append(list, Candidate{name, t.params})
	}
	for _, m := range observers.All {
		add(m.Name, m, 0)
	}
	for _, q := range shares {
		add(tqc.Observer(fmt.Sprintf("%s(%g)", tqc.ObserverPercentile, q)), observers.Percentile, q)
	}
	return list, nil
}

// Observed is what was seen of root and the tensors that share its scale, together;
// with one tensor it is the statistics' own and must not be changed.
func Observed(g *graph.Graph, set *tqc.Set, stats *Stats, root tqc.SlotID) (*observers.State, error) {
	r := &renderer{g: g, set: set, stats: stats}
	return r.state(r.activation(set.Slot(root)).values)
}
