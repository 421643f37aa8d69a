//go:build (!amd64 && !arm64) || purego

package kernels

// vectorRows lists the rows written in assembly; this build has none.
func vectorRows() []Row { return nil }
