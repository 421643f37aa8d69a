// Package pattern finds small subgraphs that are described as text, in the style of the graph's text form:
//
//	h = HardSigmoid(x) {alpha ?= 0.16666667, beta = 0.5}
//	y = Mul(x, h)
//
// The last statement is the root: a pattern is matched at a node, from there along the inputs, so that finding all
// matches costs one table look-up for nearly every node. Values computed inside the pattern other than the root's are inner:
// a match requires that nothing but the pattern's own nodes reads them and that they are neither graph outputs nor captured
// by a subgraph. What matched may therefore be fused, or be treated as one operator.
//
// The package reads graphs and never changes them. graph/passes rewrites what a pattern finds; quantizer uses the families of
// this package (Swish, LayerNorm, Attention, ...) to leave the inner tensors of what a target fuses unquantized.
//
// Unstable: it may change without notice.
package pattern
