//go:build onnxgo

package main

import (
	"qwb"
	"qwb/graph/onnx/onnxgo"
)

// secondReader is onnx-go. It keeps the linker from leaving out methods that nobody calls, which is most of what it costs.
var secondReader = &qwb.SecondReader{Name: "onnx-go " + onnxgo.Version, Read: onnxgo.Decode}
