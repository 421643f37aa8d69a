//go:build (!amd64 && !arm64) || purego

package kernels

// vectorInt8Rows lists the integer rows written in assembly; this build has none.
func vectorInt8Rows() []Row { return nil }
