// Package vectors writes test vectors of an integer program for those who build hardware or kernels for it: the integers that
// every step reads and makes, its weights, multipliers, shifts and tables, as .npy and as hexadecimal text, and the program
// itself as JSON. They are enough to compute every step again without qwb. WritePatterns does the same for the parts of a program that
// repeat, each of them a small program.
//
// Unstable: it may change without notice.
package vectors
