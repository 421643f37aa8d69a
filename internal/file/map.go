package file

import (
	"fmt"
	"io"
	"math"
	"os"
)

// Map maps a whole regular file for reading, or reads it where the system has no mappings. The bytes stay valid after f is closed,
// until release is called, and must not be written to. An empty file gives no bytes. A file that is changed while it is mapped
// changes the bytes; one that is cut then makes reads beyond its end fail in the way of the system.
func Map(f *os.File) (data []byte, release func() error, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, Plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() == 0 {
		return nil, func() error { return nil }, nil
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, nil, fmt.Errorf("a file of %d bytes does not fit into the address space", info.Size())
	}
	return mapSize(f, int(info.Size()))
}

// Open maps the file at path as Map does. A pipe or device is refused before it is opened, since that could wait for its other end.
func Open(path string) (data []byte, release func() error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, Plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, Plain(err)
	}
	defer f.Close()
	return Map(f)
}

// ReadAll reads size bytes; whether they are there is found out before memory is asked for.
func ReadAll(r io.ReaderAt, size int64) ([]byte, error) {
	if size < 0 || size > math.MaxInt {
		return nil, fmt.Errorf("a file of %d bytes cannot be read", size)
	}
	if size > 0 {
		if n, err := r.ReadAt(make([]byte, 1), size-1); n < 1 {
			return nil, fmt.Errorf("reading byte %d: %w", size, err)
		}
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("reading byte %d: %w", n+1, err)
	}
	return b, nil
}

// read is mapSize for where there are no mappings.
func read(f *os.File, size int) ([]byte, func() error, error) {
	b, err := ReadAll(f, int64(size))
	return b, func() error { return nil }, err
}
