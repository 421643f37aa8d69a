package file

import (
	"fmt"
	"io"
	"math"
	"os"
	"unsafe"
)

// Map maps a whole regular file for reading, or reads it where the system has no mappings. The bytes stay valid after f is closed,
// until release is called, and must not be written to. An empty file gives no bytes. A file that is changed while it is mapped
// changes the bytes; one that is cut then makes reads beyond its end fail in the way of the system.
func Map(f *os.File) (data []byte, release func() error, err error) {
	m, err := mapFile(f)
	if err != nil {
		return nil, nil, err
	}
	return m.Bytes, m.Release, nil
}

// copied is up to how many bytes Load reads files instead of mapping them.
const copied = 128 << 20

// Load is Map, but for small files, which are read: what happens to them afterwards does not matter then. One that is cut off while it is
// read is an error. held is how much was loaded that belongs together with f: many small files are a large one.
func Load(f *os.File, held int64) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, Plain(err)
	}
	if !info.Mode().IsRegular() || info.Size() > copied-held {
		return mapFile(f)
	}
	return read(f, int(info.Size()))
}

// Open maps the file at path as Map does.
func Open(path string) (data []byte, release func() error, err error) {
	m, err := OpenMapping(path)
	if err != nil {
		return nil, nil, err
	}
	return m.Bytes, m.Release, nil
}

// OpenMapping is Open for those who want to say which parts they need no more.
func OpenMapping(path string) (*Mapping, error) {
	f, err := OpenRead(path)
	if err != nil {
		return nil, Plain(err)
	}
	defer f.Close()
	return mapFile(f)
}

// Mapping is a file in memory.
type Mapping struct {
	Bytes   []byte
	mapped  bool // and not read
	release func() error
}

// Release ends the use of Bytes.
func (m *Mapping) Release() error { return m.release() }

// Forget says that a part of Bytes is not needed for a while: its pages do not count as memory of the process until they are looked
// at again. Of other memory, and on systems that do not know this, nothing is done.
func (m *Mapping) Forget(part []byte) {
	from := m.offset(part)
	if from < 0 {
		return
	}
	page := os.Getpagesize()
	lo, hi := (from+page-1)/page*page, (from+len(part))/page*page
	if from+len(part) == len(m.Bytes) {
		hi = len(m.Bytes) // the system's mapping ends with a whole page
	}
	if lo < hi {
		forget(m.Bytes[lo:hi])
	}
}

// offset is where a part of memory lies in a mapped file, -1 where it does not.
func (m *Mapping) offset(part []byte) int {
	if len(part) == 0 || !m.mapped {
		return -1
	}
	from := uintptr(unsafe.Pointer(&part[0])) - uintptr(unsafe.Pointer(&m.Bytes[0])) // wraps around where part begins before
	if from >= uintptr(len(m.Bytes)) || uintptr(len(part)) > uintptr(len(m.Bytes))-from {
		return -1
	}
	return int(from)
}

func mapFile(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, Plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(info)
	}
	if info.Size() == 0 {
		return &Mapping{release: func() error { return nil }}, nil
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, fmt.Errorf("a file of %d bytes does not fit into the address space", info.Size())
	}
	return mapSize(f, int(info.Size()))
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
func read(f *os.File, size int) (*Mapping, error) {
	b, err := ReadAll(f, int64(size))
	return &Mapping{Bytes: b, release: func() error { return nil }}, err
}
