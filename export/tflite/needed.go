package tflite

import (
	"slices"

	"qwb/graph"
	"qwb/quantizer/lower"
)

// needed says which steps the outputs depend on. Inputs that only say a shape do not count: shapes are fixed here.
func (b *builder) needed() []bool {
	tensors, list := map[lower.TensorID]bool{}, make([]bool, len(b.p.Steps))
	for _, id := range b.p.Outputs {
		tensors[id] = true
	}
	for i, s := range slices.Backward(b.p.Steps) {
		list[i] = slices.ContainsFunc(s.Outputs, func(id lower.TensorID) bool { return id != lower.NoTensor && tensors[id] })
		if !list[i] {
			continue
		}
		for k, id := range s.Inputs {
			if readsData(&s, k) {
				tensors[id] = true
			}
		}
	}
	return list
}

func (b *builder) readers(needed []bool) map[lower.TensorID][]lower.StepID {
	readers := map[lower.TensorID][]lower.StepID{}
	for i := range b.p.Steps {
		s := &b.p.Steps[i]
		for k, id := range s.Inputs {
			if needed[i] && readsData(s, k) {
				readers[id] = append(readers[id], s.ID)
			}
		}
	}
	return readers
}

// readsData reports whether a step reads the elements of its input k, and not its shape alone.
func readsData(s *lower.Step, k int) bool {
	g := s.Graph()
	if g == nil {
		return true
	}
	needed := neededNodes(g)
	for _, u := range g.Uses(g.Inputs[k]) {
		if needed[u.Node] && !shapeInput(g.Node(u.Node), u.Index) {
			return true
		}
	}
	return g.IsOutput(g.Inputs[k])
}

// neededNodes says on which nodes the elements of a graph's outputs depend.
func neededNodes(g *graph.Graph) map[graph.NodeID]bool {
	needed := map[graph.NodeID]bool{}
	var mark func(v graph.ValueID)
	mark = func(v graph.ValueID) {
		if v == graph.NoValue || g.Producer(v) == graph.NoNode || needed[g.Producer(v)] {
			return
		}
		n := g.Node(g.Producer(v))
		needed[n.ID] = true
		for k, v := range n.Inputs {
			if !shapeInput(n, k) {
				mark(v)
			}
		}
	}
	for _, v := range g.Outputs {
		mark(v)
	}
	return needed
}

// shapeInput reports whether input k of a node says where elements go: the shapes of its output then say it too.
func shapeInput(n *graph.Node, k int) bool {
	if n.Op == "Shape" || n.Op == "Size" {
		return true
	}
	return k > 0 && (isMove(n.Op) && n.Op != "Gather" || n.Op == "ReduceMean" || n.Op == "ReduceSum")
}
