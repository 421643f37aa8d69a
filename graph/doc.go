// Package graph is the intermediate representation of a model: operators and the values between them, stored in dense slices.
// Names are used only where a graph is read, written or reported on.
//
// graph/onnx loads a graph, or Parse reads one from its text form (Format writes it); graph/passes rewrites it and graph/exec
// executes it. The quantizer annotates a graph and never changes it. Node and value ids are indices into slices of NumNodes and
// NumValues entries, so that a package can keep a table of its own beside the graph.
//
// The table opTable says what every operator means, except how it is computed. Spec looks an operator up: its kind, the roles
// of its inputs and outputs, the inference of its types, and how to count its multiply-accumulates. InferShapes applies this to
// a graph, InferNode to one node with concrete inputs. Geometry, ResizeGeometry and similar functions resolve the
// attributes of an operator in one place for all packages.
//
// To add an operator, add an entry to the slice of its family (ops_*.go) and lines to testdata/infer.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package graph
