package graph

import "qwb/graph/tensor"

// Pointwise reports whether node id computes every element of its one float32 result from the elements at the same place of what it
// reads: an operator of ai.onnx that works element by element and reads at least one tensor that is not constant. Its constants have one
// element each, and no more axes than the tensors, so that the result has a tensor's shape. Tensors that it reads may still be broadcast.
func (g *Graph) Pointwise(id NodeID) bool {
	n := g.Node(id)
	s := n.Spec()
	if s == nil || !n.IsONNX() || s.Kind != KindActivation && s.Kind != KindElementwise || len(n.Outputs) != 1 {
		return false
	}
	if d := g.Value(n.Outputs[0]).DType; d != tensor.Float32 && d != tensor.Undefined {
		return false
	}
	computed, rank, axes := false, 0, 0 // axes: the most that a constant has
	for _, v := range n.Inputs {
		if v == NoValue {
			continue
		}
		if d := g.Value(v).DType; d != tensor.Float32 && d != tensor.Undefined {
			return false
		}
		if t := g.Const(v); t == nil {
			computed, rank = true, max(rank, len(g.Value(v).Shape))
			if g.Value(v).Shape == nil { // hardly ever a scalar
				rank = max(rank, 1)
			}
		} else if axes = max(axes, len(t.Shape)); t.Len() != 1 {
			return false
		}
	}
	return computed && axes <= rank
}

// Argument returns the place among the inputs of the one tensor of which node id is a function element by element: see Pointwise. It is
// false where the node is none, and where it reads two tensors.
func (g *Graph) Argument(id NodeID) (place int, ok bool) {
	if !g.Pointwise(id) {
		return 0, false
	}
	place = -1
	n := g.Node(id)
	for i, v := range n.Inputs {
		switch {
		case v == NoValue || g.Const(v) != nil:
		case place < 0:
			place = i
		case v != n.Inputs[place]:
			return 0, false
		}
	}
	return place, true
}
