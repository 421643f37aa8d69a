//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package file

import "os"

// mapSize reads the file: this system has no mappings.
func mapSize(f *os.File, size int) (*Mapping, error) {
	return read(f, size)
}
