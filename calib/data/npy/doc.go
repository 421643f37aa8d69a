// Package npy reads and writes NumPy's array files: .npy (format versions 1 to 3) and .npz (a zip archive of them), as
// tensors. It is used for data sets, for the inputs of a single run and for dumping what a run was fed with.
//
// Types are booleans, integers of 8 to 64 bits and floats of 16 to 64 bits, in either byte order, in C or Fortran order.
// Structured, string and object arrays are refused. Memory is bounded by the size of what is read, whatever a header claims.
//
// The format is described at https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
//
// Unstable: it may change without notice.
package npy
