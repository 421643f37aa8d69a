package onnx

import "os"

// readFile is mapFile for where there are no mappings: it reads size bytes into memory.
func readFile(f *os.File, size int) ([]byte, func() error, error) {
	b, err := readAll(f, int64(size))
	return b, func() error { return nil }, err
}
