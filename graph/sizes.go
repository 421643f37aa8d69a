package graph

// OfSizes reports whether a value that is computed depends on no element of an input, but on constants and, at most, on sizes: the same in
// every run of inputs of the same shapes. A constant and an input are none.
func OfSizes(g *Graph, v ValueID) bool {
	if v == NoValue || g.Producer(v) == NoNode {
		return false
	}
	known := map[ValueID]bool{}
	var of func(v ValueID) bool
	of = func(v ValueID) bool {
		if v == NoValue || g.Const(v) != nil {
			return true
		}
		is, seen := known[v]
		if seen || g.Producer(v) == NoNode {
			return is
		}
		n := g.Node(g.Producer(v))
		is = n.IsONNX() && (n.Op == "Shape" || n.Op == "Size")
		if !is && len(n.Subgraphs()) == 0 {
			is = len(n.Inputs) > 0
			for _, x := range n.Inputs {
				is = is && of(x)
			}
		}
		known[v] = is
		return is
	}
	return of(v)
}
