// Package onnx reads ONNX files into graph.Graph and writes them back.
//
// It is the first stage of the data flow and the last of every ONNX exporter. It knows the wire format and nothing of
// what operators mean: an unknown operator, attribute or domain is carried, not judged.
//
// Reading maps the file into memory and scans its top level once. github.com/owulveryck/onnx-go then decodes a skeleton
// of each graph (operators, edges and plain attributes) into Backend, an implementation of onnx-go's interface over
// graph.Graph; for js/wasm, where onnx-go would be as large as all the rest, what was scanned is wired by hand, and a test holds
// both equal; everything onnx-go does not carry (names, domains, tensors of all types, subgraphs, external data, types,
// functions) is read beside it by field number and joined on a reserved attribute. Tensors are views of the mapping
// wherever their encoding allows it, so that loading costs no time proportional to the weights.
//
// Writing compares the graph with what the file held. What is unchanged is copied byte for byte: the whole file, or each
// node, tensor and value description on its own; only the rest is encoded anew.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package onnx
