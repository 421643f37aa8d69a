package exec

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Footprint estimates the bytes of one run of g: those of the values that are alive at a time, and those of all. Sizes that
// are not known take that of the input's dimension of the same name, or 1. Bodies of If, Loop and Scan count once.
func Footprint(g *graph.Graph, feeds map[string]*tensor.Tensor) (live, all int64) {
	live, all, _ = footprint(g, feeds)
	return live, all
}

// footprint is Footprint, and how many tensors of floats operators make.
func footprint(g *graph.Graph, feeds map[string]*tensor.Tensor) (live, all, tensors int64) {
	g = shaped(g, feeds)
	return bodyFootprint(g, openSizes(g, feeds))
}

func bodyFootprint(g *graph.Graph, sizes map[string]int64) (live, all, tensors int64) {
	order, err := g.Order()
	if err != nil {
		return 0, 0, 0 // running it will say so
	}
	last := map[graph.ValueID]int{}
	for i, id := range order {
		for _, v := range g.Node(id).Inputs {
			last[v] = i
		}
	}
	for _, v := range g.Outputs {
		last[v] = len(order)
	}
	var now int64
	for i, id := range order {
		n := g.Node(id)
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				size := valueBytes(g.Value(v), sizes)
				now, all = now+size, all+size
				if g.Value(v).DType == tensor.Float32 {
					tensors++
				}
				last[v] = max(last[v], i)
			}
		}
		live = max(live, now)
		for _, body := range n.Subgraphs() {
			l, a, t := bodyFootprint(body, sizes)
			live, all, tensors = max(live, now+l), all+a, tensors+t
		}
		for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
			for _, v := range list {
				if end, ok := last[v]; ok && end == i && v != graph.NoValue && g.Const(v) == nil && g.Producer(v) != graph.NoNode {
					now -= valueBytes(g.Value(v), sizes)
					delete(last, v)
				}
			}
		}
	}
	return live, all, tensors
}

// shaped is the graph with the shapes that it has for a sample, where its own are not known: g itself or a copy.
func shaped(g *graph.Graph, feeds map[string]*tensor.Tensor) *graph.Graph {
	known := func(d graph.Dim) bool { return d.Known() }
	if feeds == nil || !slices.ContainsFunc(g.Inputs, func(v graph.ValueID) bool { return !all(g.Value(v).Shape, known) }) {
		return g
	}
	g = g.Clone()
	for _, v := range g.Inputs {
		t := feeds[g.Value(v).Name]
		if t == nil {
			continue
		}
		shape := make(graph.Shape, len(t.Shape))
		for i, n := range t.Shape {
			shape[i] = graph.Dim{N: int64(n)}
		}
		g.Value(v).Shape = shape
	}
	graph.InferShapes(g) // what it cannot say is estimated from the names of dimensions
	return g
}

func all[T any](list []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !holds(x) })
}

// openSizes are the sizes of open dimensions by their names.
func openSizes(g *graph.Graph, feeds map[string]*tensor.Tensor) map[string]int64 {
	sizes := map[string]int64{}
	for _, v := range g.Inputs {
		t := feeds[g.Value(v).Name]
		for i, d := range g.Value(v).Shape {
			if t != nil && i < len(t.Shape) && !d.Known() && d.Symbol != "" {
				sizes[d.Symbol] = int64(t.Shape[i])
			}
		}
	}
	return sizes
}

// valueBytes is the size of a value, limited so that sums do not overflow.
func valueBytes(v *graph.Value, sizes map[string]int64) int64 {
	const most = 1 << 40
	bytes := int64(max(v.DType.Bits(), 8) / 8)
	for _, d := range v.Shape {
		n := d.N
		if !d.Known() {
			n = max(sizes[d.Symbol], 1)
		}
		if n > 0 && bytes > most/n {
			return most
		}
		bytes *= n
	}
	return bytes
}
