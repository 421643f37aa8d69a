package target

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// IsFloat reports whether v holds float32 numbers, or may do so because its type is not known.
func IsFloat(g *graph.Graph, v graph.ValueID) bool {
	if v == graph.NoValue {
		return false
	}
	d := g.Value(v).DType
	return d == tensor.Float32 || d == tensor.Undefined
}

// DataInput reports whether input i of a node holds numbers that may be quantized: not a shape, an index, a bound or a
// condition. Of an operator that package graph does not know, every float input counts.
func DataInput(g *graph.Graph, id graph.NodeID, i int) bool {
	n := g.Node(id)
	if !IsFloat(g, n.Input(i)) {
		return false
	}
	s := n.Spec()
	return s == nil || s.InSocket(i) == graph.SocketData
}

// DataInputs lists the inputs for which DataInput holds, in order.
func DataInputs(g *graph.Graph, id graph.NodeID) []int {
	var list []int
	for i := range g.Node(id).Inputs {
		if DataInput(g, id, i) {
			list = append(list, i)
		}
	}
	return list
}

// DataOutput is DataInput for outputs.
func DataOutput(g *graph.Graph, id graph.NodeID, i int) bool {
	n := g.Node(id)
	if !IsFloat(g, n.Outputs[i]) {
		return false
	}
	s := n.Spec()
	return s == nil || s.OutSocket(i) == graph.SocketData
}

// ShapeInput reports whether input i of a node is a shape, an axis or an index.
func ShapeInput(g *graph.Graph, id graph.NodeID, i int) bool {
	s := g.Node(id).Spec()
	return s != nil && s.InSocket(i) == graph.SocketIndex
}
