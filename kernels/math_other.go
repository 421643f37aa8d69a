//go:build !amd64 || purego

package kernels

// vectorMathRows lists the functions of one number and the row operations written in assembly; this build has none.
func vectorMathRows() []Row { return nil }
