// Package lower turns a configured graph into a Program: the integer steps that the target executes, as plain data. Tensors are
// integers of 8 or 16 bits between steps; float32 tensors stand only at the border of float islands, of the program's inputs and of
// its outputs. Package program executes them.
//
// The meaning of a value is that of package sim: an output slot that quantizes gives a value its integers for everybody who reads
// it; an input slot that quantizes makes its reader see the value on the grid of that slot. A value without a quantizing output
// slot is real: the step that computes it writes one tensor for every grid that its readers want, straight from its sums.
//
// Numbers come from kernels/qmath and its arithmetic profiles; nothing is rounded here.
//
// Unstable: it may change without notice.
package lower
