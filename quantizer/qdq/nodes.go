package qdq

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// NodeWriter adds nodes to G that are named after Name and have Attrs. Err is the first error.
type NodeWriter struct {
	G     *graph.Graph
	Name  string
	Attrs []graph.Attr
	Err   error
}

// Value adds a value that no node computes yet.
func (w *NodeWriter) Value(what string, d tensor.DType, shape graph.Shape) graph.ValueID {
	v, err := w.G.AddValue(graph.Value{Name: w.G.FreshName(w.Name + "_" + what), DType: d, Shape: shape})
	if w.Err == nil {
		w.Err = err
	}
	return v
}

// Add adds a node.
func (w *NodeWriter) Add(op string, in []graph.ValueID, out ...graph.ValueID) {
	if w.Err == nil {
		_, w.Err = w.G.AddNode(graph.Node{Name: w.G.FreshName(w.Name + "_" + op + "_node"), Op: op, Attrs: w.Attrs, Inputs: in, Outputs: out})
	}
}

// Of adds a float operator and returns its output.
func (w *NodeWriter) Of(op string, in ...graph.ValueID) graph.ValueID {
	y := w.Value(op, tensor.Float32, nil)
	w.Add(op, in, y)
	return y
}
