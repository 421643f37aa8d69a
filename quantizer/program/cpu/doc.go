// Package cpu executes integer programs by the integer kernels of package kernels: a kernel for each family of steps, and the reference
// for what no kernel does. 8-bit tensors are bytes there, codes of int8 being moved up by 128; they lie in one arena, which is planned
// by what the first run of a set of shapes asked for.
//
// Unstable: it may change without notice.
package cpu
