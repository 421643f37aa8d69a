// Package calib drives data through the float graph into observers, keeps what they saw as Stats (mergeable, in a canonical
// file), and turns Stats into the scales of a configured graph.
//
//	Run(ctx, g, samples, cfg)      -> *Stats     one pass over the data, every float32 tensor observed
//	Merge(a, b)                    -> *Stats     byte for byte what one run over both would have given
//	Render(ctx, g, set, stats, cfg) -> *Outcome  weights, activations, then the biases that follow from both
//
// Stats are of the float graph and know no target, so that another target, another method or more data need no new pass over
// what was seen already. It stands between the configuration (quantizer) and everything that reads scales.
//
// Unstable: it may change without notice.
package calib
