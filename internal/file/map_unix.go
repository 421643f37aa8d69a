//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"errors"
	"fmt"
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

// spill maps a file without a name that holds a copy of b, for reading and writing. The copy is written, not stored through the mapping, so
// that it takes no memory.
func spill(b []byte) (*Mapping, error) {
	f, err := os.CreateTemp("", "qwb-spill-*")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, len(b), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &Mapping{data, true, func() error { return syscall.Munmap(data) }}, nil
}
