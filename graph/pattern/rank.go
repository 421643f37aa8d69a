package pattern

import "qwb/graph"

// Rank returns the number of dimensions of v as recorded in the graph; false means unknown. Accepting a LayerNorm or an
// Attention depends on it, so graph.InferShapes should have run.
func Rank(g *graph.Graph, v graph.ValueID) (int, bool) {
	if v == graph.NoValue || g.Value(v).Shape == nil {
		return 0, false
	}
	return len(g.Value(v).Shape), true
}
