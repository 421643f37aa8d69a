// Package graph is the intermediate representation: operators over values, in dense slices, with names at the edges only.
//
// A graph is loaded by graph/onnx or read from its text form (Parse, Format), rewritten by graph/passes, executed by
// graph/exec and annotated, never rewritten, by quantizer. Node and value ids index side tables of NumNodes and NumValues
// entries.
//
// What operators mean, short of computing them, stands in one table: Spec gives an operator's kind, the roles of its inputs
// and outputs, inference of types and the count of multiply-accumulates. InferShapes applies it to a graph, InferNode to one
// node with concrete inputs. Geometry, SliceRanges, ResizeGeometry and their like resolve attributes once for everybody.
//
// To add an operator, add an entry to the slice of its family (ops_*.go) and lines to testdata/infer.
package graph
