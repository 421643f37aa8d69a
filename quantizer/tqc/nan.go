package tqc

import "fmt"

// NaN is the error of a NaN that would have become a code. No standard says which one: ONNX leaves it open and engines differ.
type NaN struct {
	Tensor string // that was to be quantized
}

func (e *NaN) Error() string {
	return fmt.Sprintf("tensor %q holds NaN, which no code stands for", e.Tensor)
}
