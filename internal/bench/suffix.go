package bench

import "qwb/graph"

// Bound is what analysing operators one at a time costs at least, in whole forwards per sample, the float one included.
type Bound struct {
	// Suffix runs, for each operator, everything from it on in the order of execution.
	Suffix float64 `json:"suffix"`
	// Descendants runs, for each operator, it and what depends on it.
	Descendants float64 `json:"descendants"`
}

// LayerwiseBound computes the bounds for operators of g. weight is the cost of a node in any unit; a graph of no cost has the
// bound of one forward for each operator.
func LayerwiseBound(g *graph.Graph, operators []graph.NodeID, weight func(graph.NodeID) float64) (Bound, error) {
	order, err := g.Order()
	if err != nil {
		return Bound{}, err
	}
	at := make([]int, g.NumNodes())
	from := make([]float64, len(order)+1) // cost of everything from a place on
	for i := len(order) - 1; i >= 0; i-- {
		at[order[i]] = i
		from[i] = from[i+1] + weight(order[i])
	}
	total := from[0]
	if total == 0 {
		n := float64(len(operators))
		return Bound{1 + n, 1 + n}, nil
	}
	b := Bound{1, 1}
	for _, op := range operators {
		b.Suffix += from[at[op]] / total
		b.Descendants += below(g, order[at[op]:], weight) / total
	}
	return b, nil
}

// below is the cost of the first node of order and of what depends on it; order is topological.
func below(g *graph.Graph, order []graph.NodeID, weight func(graph.NodeID) float64) float64 {
	changed := map[graph.ValueID]bool{}
	var sum float64
	for i, id := range order {
		n := g.Node(id)
		reached := i == 0
		for _, v := range n.Inputs {
			reached = reached || changed[v]
		}
		if !reached {
			continue
		}
		sum += weight(id)
		for _, v := range n.Outputs {
			changed[v] = v != graph.NoValue
		}
	}
	return sum
}
