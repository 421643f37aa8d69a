// Package program executes a lower.Program. A Backend is one way to do so; all of them give the same integers for every step that
// is not a float island. The reference backend is the specification: plain loops over codes, with int32 accumulators and 64-bit
// products, and float32 operations only where the program's arithmetic profile has a float epilogue or the program has an island.
//
// The CPU backend is the same by the integer kernels of package kernels. Its files are named cpu_: a kernel for each family of steps,
// and the reference for what no kernel does. 8-bit tensors are bytes there, codes of int8 being moved up by 128; they lie in one arena,
// which is planned by what the first run of a set of shapes asked for.
package program
