// Package cprogram writes an integer program as one portable C99 file: weights and tables, a function for every kind of operator,
// a call for every step, a static arena, and a main that reads and writes .npy files. The file needs nothing but the C library.
//
// What the C code computes is what the program's profile says, integer for integer: it equals the reference executor of package
// program. Under an integer profile there is no floating point between the program's borders. Float epilogues and float islands
// are float32 operations in a stated order; compile them with -ffp-contract=off.
//
// The kernels are pieces of C in the folder c, with types as placeholders; a file holds those that its program needs.
//
// Unstable: it may change without notice.
package cprogram
