// Package sim makes the float executor compute what the quantized model will compute: its hooks quantize and dequantize tensors
// at the slots whose state says so (ACTIVATED, PASSIVE), which is where the exported model has its Q/DQ pairs, and round what
// float islands read and write to the precision that their domain or the target gives them. Scales that are computed at run time are
// computed from each tensor as an engine does.
//
// It holds no arithmetic of its own: formats come from tqc, numbers from kernels/qmath.
//
// Unstable: it may change without notice.
package sim
