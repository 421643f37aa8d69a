// Package onnx reads ONNX files into graph.Graph and writes them back.
//
// It is the first stage of the data flow and the last of every ONNX exporter. It knows the wire format and nothing of
// what operators mean: an unknown operator, attribute or domain is carried, not judged.
//
// Reading maps the file into memory and scans it once, by field number. Tensors are views of the mapping wherever their encoding
// allows it, so that loading costs no time proportional to the weights. Package onnxgo decodes by github.com/owulveryck/onnx-go into the
// same graph; tests hold both equal.
//
// Writing compares the graph with what the file held. What is unchanged is copied byte for byte: the whole file, or each
// node, tensor and value description on its own; only the rest is encoded anew.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package onnx
