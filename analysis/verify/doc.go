// Package verify holds an integer program, the plan it was made of and the simulation together.
//
// The static half derives every number of a program a second time, from the graph, the plan and the arithmetic profile, with
// package qmath and without the functions of package lower: it reads the program's plain data and compares. The dynamic half
// runs the program on samples. Its backends are compared with the reference (rule a: no integer may differ), and every step is
// computed again in real arithmetic from the integers that it read (rule b: an integer may be the other neighbour of the exact
// value where that lies within a stated bound of a rounding boundary; such integers are counted as ties). At the end the
// free-running program is compared with the free-running simulation, which is reported only (rule c).
//
// The exact value of a sum of products is computed by the float executor, on integers in float32: weights are cut into digits so
// small that no sum leaves 24 bits, which makes float32 sums exact in any order. So the accumulators of the second computation
// have no error at all, and the bound of rule (b) is the profile's own deviation, qmath's Deviation, and a rest of float64.
//
// Unstable: it may change without notice.
package verify
