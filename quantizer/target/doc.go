// Package target describes the platforms that a model is quantized for, as plain tables: which operators run on integers and
// under which conditions, how activations, weights and biases are quantized, where quantizers stand, what is fused, and what an
// exporter has to respect. dispatch reads it to decide what is quantized, quantizer to configure how.
//
// One target is one file with one value. A new one needs that file and a line in All; a condition that no operator had before
// goes to condition.go.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package target
