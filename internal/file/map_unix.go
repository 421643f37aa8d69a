//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"syscall"
)

// mapSize maps size bytes of f for reading; the mapping outlives f and ends with release.
func mapSize(f *os.File, size int) (*Mapping, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if errors.Is(err, syscall.ENOMEM) {
		return nil, fmt.Errorf("its %d bytes do not fit into the memory that the process may have: %w", size, err)
	}
	if err != nil {
		return read(f, size) // a file system without mappings
	}
	smallPages(data)
	return &Mapping{data, true, func() error { return syscall.Munmap(data) }}, nil
}

// spill maps a file without a name that holds copies of pieces, for reading and writing. They are written, not stored through the mapping,
// so that they take no memory.
func spill(pieces iter.Seq[[]byte]) (*Mapping, error) {
	f, err := os.CreateTemp("", "qwb-spill-*")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	size := 0
	for b := range pieces {
		if _, err := f.Write(b); err != nil {
			return nil, err
		}
		size += len(b)
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Mapping{data, true, func() error { return syscall.Munmap(data) }}, nil
}
