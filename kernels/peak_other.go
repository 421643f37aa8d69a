//go:build !amd64 || purego

package kernels

// vectorPeaks lists the peaks written in assembly; this build has none.
func vectorPeaks() []Peak { return nil }
