package calib

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
)

// Assumed are made-up statistics of a graph: every float32 tensor that is computed has seen -1, 0 and 1. What becomes of a plan
// whatever its scales are can be asked of them before anything has run.
func Assumed(g *graph.Graph) *Stats {
	s := &Stats{tensors: map[string]*Tensor{}}
	for v, t := range newTrackers(g, nil, true, false) {
		if t == nil {
			continue
		}
		seen := newTensor(observers.New())
		x, _ := seen.State.Observe(tensor.FromF32([]float32{-1, 0, 1}, 3), -1) // there is no NaN among them
		seen.Halves = [2]observers.Extent{x, x}
		s.tensors[g.Value(graph.ValueID(v)).Name] = seen
	}
	return s
}
