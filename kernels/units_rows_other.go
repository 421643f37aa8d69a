//go:build !amd64 || purego

package kernels

// vectorUnitsRows lists the rows of sums in whole units written in assembly; this build has none.
func vectorUnitsRows() []Row { return nil }
