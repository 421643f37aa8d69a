// Package program executes a lower.Program. A Backend is one way to do so; all of them give the same integers for every step that
// is not a float island. The reference backend is the specification: plain loops over codes, with int32 accumulators and 64-bit
// products, and float32 operations only where the program's arithmetic profile has a float epilogue or the program has an island.
//
// The other backends are packages below this one: cpu by the integer kernels of package kernels, gpu by CUDA. A process hands over
// those that it offers; what they have no kernel for they leave to NewKernel, the reference's.
//
// Unstable: it may change without notice.
package program
