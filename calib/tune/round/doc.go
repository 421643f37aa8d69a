// Package round rounds the rows of a weight matrix to an integer grid so that the output of the operator, not the weight, is met best.
//
// A row w of K weights reads inputs x. With codes whose numbers are q its output errs by (w - q).x, and over all inputs the sum of squares
// is the quadratic form
//
//	(w - q)' H (w - q)     with H = sum x x'
//
// Nearest rounding minimises it for a diagonal H only. Least squares over a grid is the closest vector problem of the lattice that H spans:
//
//   - Factor and (*Factor).Round: one weight after the other, the errors so far made good by those that follow. This is Babai's nearest
//     plane, known as GPTQ (E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative
//     Pre-trained Transformers", 2022), which is OBQ (E. Frantar, S. P. Singh, D. Alistarh, "Optimal Brain Compression", 2022) in a fixed
//     order.
//   - (*Factor).Exact: the best codes of a short row (a depthwise kernel), by enumeration of all that can be better than the best so far.
//   - Problem.Descend: single codes are moved while that lowers the form.
//   - Problem.Scales: the scales of groups that are best for codes, by least squares over all groups of a row.
//   - (*Factor).Shift: where the inputs of the quantized network differ from those of the float network, what makes it good, added to the
//     weights before they are rounded: GPTAQ (Y. Li et al., "GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration",
//     2025), ridge regression of ERQ (Y. Zhong et al., "ERQ: Error Reduction for Post-Training Quantization of Vision Transformers",
//     2024).
//
// While codes are chosen scales are given, also those of groups ("static groups"), so that the order in which weights are taken leaves no
// trace in the result. All arithmetic is float64; every number becomes an integer through qmath.Grid. Sums are taken in an order that
// neither threads nor the cutting into blocks changes.
//
// Unstable: it may change without notice.
package round
