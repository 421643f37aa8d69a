package dispatch

import "qwb/graph"

// elements returns the size of a tensor. Dimensions that are not known count as 1; known is false if one other than the first (the
// batch) is not.
func elements(g *graph.Graph, v graph.ValueID) (n int64, known bool) {
	return count(g.Value(v).Shape)
}

func count(s graph.Shape) (n int64, known bool) {
	n, known = 1, s != nil
	for i, d := range s {
		if d.Known() {
			n *= d.N
		} else if i > 0 {
			known = false
		}
	}
	return n, known
}
