// Package bench says what `qwb bench` measures and what to make of the times: the kernels' cases, sampling in rounds, the
// machine's peaks, rooflines, and the least that layerwise analysis can cost. It has no clock of its own; cmd hands one in.
package bench
