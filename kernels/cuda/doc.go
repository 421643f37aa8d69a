// Package cuda runs kernels on NVIDIA GPUs, by the driver API alone: no CUDA toolkit is needed to build or to run. The kernels are
// CUDA sources in src, compiled to the PTX in ptx, which is part of the binary and which the driver compiles for the GPU that it
// finds. kernels/ref and kernels/qmath say what they compute, bit for bit.
//
// One Go file with the launchers belongs to one source of kernels. A kernel has one parameter: a struct, which a Go type mirrors.
//
// Unstable: it may change without notice.
package cuda
