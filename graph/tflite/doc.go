// Package tflite reads and writes the FlatBuffers file of TensorFlow Lite as plain values.
//
// It knows the schema (its tables as rows of slots, see schema.go) and nothing of what operators mean: what they compute, in which layout
// and how a graph becomes one is the matter of exporters and importers. Reading copies everything but the data of constant tensors, which
// are parts of the bytes given; it allocates in proportion to the file whatever the file says.
// Writing gives the same bytes for the same Model.
//
// The slots were read off the schema of TensorFlow Lite, version 3 (tflite/schema/schema.fbs of google-ai-edge/LiteRT, as ai-edge-litert
// 2.3 carries it).
//
// Unstable: it may change without notice.
package tflite
