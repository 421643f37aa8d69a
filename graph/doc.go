// Package graph is the intermediate representation: operators over values, in dense slices, with names at the edges only.
//
// A graph is loaded by graph/onnx (or parsed from its text form), rewritten by graph/passes, executed by graph/exec and
// annotated, never rewritten, by quantizer. Node and value ids index side tables of NumNodes and NumValues entries.
package graph
