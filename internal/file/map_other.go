//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package file

import (
	"errors"
	"iter"
	"os"
)

// mapSize reads the file: this system has no mappings.
func mapSize(f *os.File, size int) (*Mapping, error) {
	return read(f, size)
}

// spill is for systems where a file without a name can be mapped.
func spill(iter.Seq[[]byte]) (*Mapping, error) { return nil, errors.ErrUnsupported }
