// Package gpu executes integer programs on an NVIDIA GPU by the kernels of package cuda. The first run of a set of shapes goes step by
// step and is written down; from then on a run is one captured graph over one arena. What no kernel does is computed on the host by the
// reference, between two graphs.
//
// Unstable: it may change without notice.
package gpu
