//go:build !amd64 || purego

package kernels

// vectorGramRows lists the rows of sums of products of columns written in assembly; this build has none.
func vectorGramRows() []Row { return nil }
