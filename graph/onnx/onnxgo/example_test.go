package onnxgo_test

import (
	"bytes"
	"fmt"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/onnx/onnxgo"
)

// A model that qwb wrote, read by onnx-go.
func ExampleDecode() {
	g, err := graph.Parse(`
opset 17
input x: f32[1,4]
a = Relu(x) "first"
y = Add(a, x) "second"
output y: f32[1,4]
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b bytes.Buffer
	if err := (&onnx.Model{Graph: g}).Write(&b); err != nil {
		fmt.Println(err)
		return
	}
	other, err := onnxgo.Decode(b.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range other.Nodes() {
		n := other.Node(id)
		fmt.Println(n.Op, other.Value(n.Inputs[0]).Name, "to", other.Value(n.Outputs[0]).Name)
	}
	_, err = onnxgo.Decode([]byte("no model"))
	fmt.Println(err != nil)
	// Output:
	// Relu x to a
	// Add a to y
	// true
}
