// Package drivertest has a CUDA driver without a GPU, which tests compile with the C compiler of the machine: what the binding hands
// over, and what it does when the driver fails, is seen everywhere.
//
// Unstable: it may change without notice.
package drivertest
