//go:build !unix

package main

import (
	"runtime"
)

// peakRSS returns the memory that the Go runtime has taken from the system, in bytes, where the system does not tell more.
func peakRSS() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
