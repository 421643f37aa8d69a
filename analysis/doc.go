// Package analysis computes numbers about a configured graph: how large the quantization error is (graphwise), which operator
// causes it (layerwise), what the tensors look like (statistical), and which operators to send back to float (search).
//
// It takes a graph, a tqc.Set and samples, runs the graph through graph/exec with the hooks of quantizer/sim, and returns
// the plain data declared in results.go. It renders nothing and changes neither graph nor set.
//
// Unstable: it may change without notice.
package analysis
