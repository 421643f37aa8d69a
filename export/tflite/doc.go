// Package tflite writes integer programs as TensorFlow Lite files.
//
// Layout: TensorFlow Lite's windows slide over [N,H,W,C]. Every value is kept in one stored order of its axes, its perm: stored axis j is
// axis perm[j] of the graph's value. Windows ask for channels last, a Transpose of the graph changes only what perm says, elementwise
// operators take whatever order their input has, and only where an operator needs another order is a TRANSPOSE written. A Flatten in front
// of a product with a constant keeps the stored order: the columns of the constant are reordered instead.
//
// Unstable: it may change without notice.
package tflite
