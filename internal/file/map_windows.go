package file

import (
	"errors"
	"iter"
	"os"
	"syscall"
	"unsafe"
)

// mapSize maps size bytes of f for reading; the mapping outlives f and ends with release.
func mapSize(f *os.File, size int) (*Mapping, error) {
	h, err := syscall.CreateFileMapping(syscall.Handle(f.Fd()), nil, syscall.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return read(f, size)
	}
	defer syscall.CloseHandle(h) // the view keeps the mapping alive
	addr, err := syscall.MapViewOfFile(h, syscall.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return read(f, size)
	}
	// The address is not of Go's heap, so reading it as a pointer is safe; vet cannot know that of a direct conversion.
	data := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size)
	return &Mapping{data, true, func() error { return syscall.UnmapViewOfFile(addr) }}, nil
}

// spill is for systems where a file without a name can be mapped.
func spill(iter.Seq[[]byte]) (*Mapping, error) { return nil, errors.ErrUnsupported }
