//go:build unix

package main

import (
	"syscall"
)

// limitFiles makes writing fail beyond so many bytes of a file.
func limitFiles(bytes uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: bytes})
}
