package onnx

import (
	"bytes"
	"math"
	"slices"
	"unsafe"

	"qwb/graph"
	"qwb/graph/tensor"
)

// sameGraph reports whether two graphs say the same: names, nodes, constants, types, inputs and outputs. The order in which
// nodes and values are stored does not matter, neither do ids.
func sameGraph(a, b *graph.Graph) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.Name != b.Name || a.Doc != b.Doc || !sameNames(a, a.Inputs, b, b.Inputs) ||
		!sameNames(a, a.Outputs, b, b.Outputs) {
		return false
	}
	nodes, values := a.Nodes(), a.Values()
	if len(nodes) != len(b.Nodes()) || len(values) != len(b.Values()) {
		return false
	}
	for _, id := range nodes {
		other, ok := b.LookupNode(a.Node(id).Name)
		if !ok || !sameNode(a, a.Node(id), b, b.Node(other)) {
			return false
		}
	}
	for _, id := range values {
		other, ok := b.Lookup(a.Value(id).Name)
		if !ok || !sameValue(a.Value(id), b.Value(other)) || !sameTensor(a.Const(id), b.Const(other)) {
			return false
		}
	}
	return true
}

// sameNames reports whether two lists of values, each of its own graph, have the same names.
func sameNames(ga *graph.Graph, a []graph.ValueID, gb *graph.Graph, b []graph.ValueID) bool {
	return slices.EqualFunc(a, b, func(x, y graph.ValueID) bool { return nameOf(ga, x) == nameOf(gb, y) })
}

// sameNode compares everything but ids.
func sameNode(ga *graph.Graph, a *graph.Node, gb *graph.Graph, b *graph.Node) bool {
	return a.Name == b.Name && a.Op == b.Op && a.Domain == b.Domain && a.Doc == b.Doc && a.Overload == b.Overload &&
		sameNames(ga, a.Inputs, gb, b.Inputs) && sameNames(ga, a.Outputs, gb, b.Outputs) &&
		slices.EqualFunc(a.Attrs, b.Attrs, sameAttr)
}

// sameValue compares what is said about a value, its constant apart. The type of a captured value is the business of the
// graph that defines it.
func sameValue(a, b *graph.Value) bool {
	if a.Outer && b.Outer {
		return true
	}
	return a.Doc == b.Doc && a.DType == b.DType && a.Outer == b.Outer && (a.Shape == nil) == (b.Shape == nil) &&
		slices.Equal(a.Shape, b.Shape)
}

// sameAttr compares two attributes; numbers bit by bit, so that NaN equals itself.
func sameAttr(a, b graph.Attr) bool {
	bits := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	return a.Name == b.Name && a.Kind == b.Kind && a.Doc == b.Doc && a.RefAttr == b.RefAttr && bits(a.F, b.F) && a.I == b.I &&
		a.S == b.S && sameTensor(a.T, b.T) && sameGraph(a.G, b.G) && slices.EqualFunc(a.Floats, b.Floats, bits) &&
		slices.Equal(a.Ints, b.Ints) && slices.Equal(a.Strings, b.Strings) && slices.EqualFunc(a.Tensors, b.Tensors, sameTensor) &&
		slices.EqualFunc(a.Graphs, b.Graphs, sameGraph) && bytes.Equal(a.Raw, b.Raw)
}

// sameTensor is tensor.Equal without reading elements that are the same memory, as those of an unchanged constant are.
func sameTensor(a, b *tensor.Tensor) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if a.DType == b.DType && a.Layout == b.Layout && slices.Equal(a.Shape, b.Shape) {
		pa, na := memory(a.Data)
		pb, nb := memory(b.Data)
		if na > 0 && pa == pb && na == nb {
			return true
		}
	}
	return tensor.Equal(a, b)
}

// memory is where the elements of a tensor lie and how many there are; nil for those that are never views of a file.
func memory(data any) (unsafe.Pointer, int) {
	switch d := data.(type) {
	case []float32:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []float64:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []int8:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []uint8:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []uint16:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []int32:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	case []int64:
		return unsafe.Pointer(unsafe.SliceData(d)), len(d)
	}
	return nil, 0
}

// nameOf is the name by which a node refers to a value: empty for an absent one.
func nameOf(g *graph.Graph, v graph.ValueID) string {
	if v == graph.NoValue {
		return ""
	}
	return g.Value(v).Name
}
