//go:build !onnxgo

package main

import "qwb"

// secondReader is none: onnx-go is linked with the build tag onnxgo alone.
var secondReader *qwb.SecondReader
