//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package onnx

import "os"

// mapFile reads the file: this system has no mappings.
func mapFile(f *os.File, size int) (data []byte, release func() error, err error) {
	return readFile(f, size)
}
