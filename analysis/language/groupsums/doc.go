// Package groupsums runs a few tokens through a language model twice, on the processor's kernels and on plain loops, and compares every
// int32 sum of every group. It goes through the model matrix by matrix and packs one at a time, so that it needs little memory
// beside that of the largest activations.
//
// Unstable: it may change without notice.
package groupsums
