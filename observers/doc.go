// Package observers turns the values of a tensor into a range. It has two halves: State, the statistics of one tensor,
// which are mergeable and free of order; and the methods (MinMax, Percentile, MSE, KL, Isotone), one file each, which all
// read the same State. Choosing another method therefore costs no new pass over the data.
//
// calib feeds tensors in and turns ranges into scales with qmath. An observer never writes a config, runs no graph and
// knows no scale but those its own search tries.
package observers
