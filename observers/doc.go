// Package observers turns the values of a tensor into a range. It has two halves. State holds the statistics of one tensor;
// states can be merged, and the order of the values does not matter. The methods (MinMax, Percentile, MSE, KL, Isotone), one
// file each, compute a range from a State, and so do Peers, which choose what other tools would. All of them read the same State, so
// choosing another method needs no new pass over the data.
//
// calib feeds tensors in, and turns ranges into scales with qmath. An observer never writes a configuration and never runs a
// graph; the only scales it knows are those that its own search tries.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package observers
