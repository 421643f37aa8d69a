package graph

import "qwb/graph/tensor"

// NodeWriter adds nodes to G that are named after Name and have Attrs. Err is the first error.
type NodeWriter struct {
	G     *Graph
	Name  string
	Attrs []Attr
	Err   error
}

// Value adds a value that no node computes yet.
func (w *NodeWriter) Value(what string, d tensor.DType, shape Shape) ValueID {
	v, err := w.G.AddValue(Value{Name: w.G.FreshName(w.Name + "_" + what), DType: d, Shape: shape})
	if w.Err == nil {
		w.Err = err
	}
	return v
}

// Add adds a node.
func (w *NodeWriter) Add(op string, in []ValueID, out ...ValueID) {
	if w.Err == nil {
		_, w.Err = w.G.AddNode(Node{Name: w.G.FreshName(w.Name + "_" + op + "_node"), Op: op, Attrs: w.Attrs, Inputs: in, Outputs: out})
	}
}

// Of adds a float operator and returns its output.
func (w *NodeWriter) Of(op string, in ...ValueID) ValueID {
	y := w.Value(op, tensor.Float32, nil)
	w.Add(op, in, y)
	return y
}
