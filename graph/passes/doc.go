// Package passes rewrites graphs into a normal form that computes the same: constants folded, batch normalization, biases and
// constant factors moved into the weights, no-ops, duplicates and dead code removed.
//
// It stands between loading and dispatch: onnx.Open -> passes.Run(ctx, g, passes.Normalize) -> dispatch. A pass proposes patches; one
// function applies them and refuses every patch that would take away a value something else needs: a graph output, a value
// with another reader, a value read inside a subgraph. Output names therefore survive every pass. What was done and what was
// declined, with the reason, is in the Log.
//
// The normal form keeps the graph's opset, so forms that changed between opsets (Clip's bounds as attributes or inputs) are
// kept as well: rules read both. RaiseOpset converts a graph to a later opset. Other decisions:
//
//   - Arithmetic on constants is float64, rounded once to float32; a fold whose result is not finite is declined.
//   - A fold never writes to a constant: others may share it. Equal constants are merged afterwards.
//   - An initializer that is listed among the graph's inputs, as IR 3 demands, counts as a constant.
//   - Parts of what a target may execute as one operator (pattern.Families) are left whole: the 1/6 of a HardSwish is not moved
//     into the next convolution's weights.
//   - A product with constants stands before a sum with constants; neighbours of a kind are one node.
//   - Bodies of If, Loop and Scan are left as they are.
//   - QuantizeLinear and DequantizeLinear are never folded: what they say about a model is what others read.
//
// Unstable: it may change without notice.
package passes
