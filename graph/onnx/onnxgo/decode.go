package onnxgo

import (
	"fmt"

	onnxgo "github.com/owulveryck/onnx-go"

	"qwb/graph"
)

// Version is the release of onnx-go that decodes.
const Version = "v0.5.0"

// Decode reads a model by onnx-go. What that cannot read, and where it panics, is an error: int8, float16, external data, graphs in
// attributes, sequences. Names of nodes, domains and opsets are not in the result, since onnx-go drops them.
func Decode(model []byte) (g *graph.Graph, err error) {
	defer func() {
		if r := recover(); r != nil {
			g, err = nil, fmt.Errorf("onnx-go %s: %v", Version, r)
		}
	}()
	b := NewBackend()
	m := onnxgo.NewModel(b)
	if err := m.UnmarshalBinary(model); err != nil {
		return nil, fmt.Errorf("onnx-go %s: %w", Version, err)
	}
	return b.Graph(m.Input, m.Output)
}
