// Package gpu runs the language models of package decode on an NVIDIA GPU, with the logits of the processor, bit for bit: weights, caches
// and all that a pass computes lie on the device.
//
// Unstable: it may change without notice.
package gpu
