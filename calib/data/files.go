package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"qwb/graph/exec"
	"qwb/internal/file"
)

// files gives access to a file system by any path the operating system takes.
type files struct {
	fsys fs.FS
	most int64 // bytes that the work may take in all, 0: any number
}

// room refuses a sample for which so many bytes are held while it is read.
func (f files) room(bytes int64) error { return exec.FitSample(f.most, bytes) }

// osFS opens paths as the operating system does; os.DirFS would refuse absolute ones.
type osFS struct{}

func (osFS) Open(name string) (fs.File, error) { return file.OpenRead(name) }

func (f files) fs() fs.FS {
	if f.fsys == nil {
		return osFS{}
	}
	return f.fsys
}

// stat describes a path.
func (f files) stat(path string) (fs.FileInfo, error) {
	i, err := fs.Stat(f.fs(), path)
	return i, cause(err)
}

// readDir lists a folder, sorted by name.
func (f files) readDir(path string) ([]fs.DirEntry, error) {
	l, err := fs.ReadDir(f.fs(), path)
	return l, cause(err)
}

// readAll reads a whole file of at most limit bytes.
func (f files) readAll(path string, limit int64) ([]byte, error) {
	r, size, err := f.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > limit {
		return nil, fmt.Errorf("%d bytes are more than %d", size, limit)
	}
	if err := f.room(size); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := r.ReadAt(b, 0)
	if err != nil && !(err == io.EOF && int64(n) == size) {
		return nil, cause(err)
	}
	return b, nil
}

// readHead reads up to n bytes from the start.
func (f files) readHead(path string, n int) ([]byte, error) {
	r, _, err := f.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, n)
	n, err = r.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, cause(err)
	}
	return b[:n], nil
}

// readerAt is an open file.
type readerAt interface {
	io.ReaderAt
	io.Closer
}

// open opens a file for reading at any offset and tells its size.
func (f files) open(path string) (readerAt, int64, error) {
	file, err := f.fs().Open(path)
	if err != nil {
		return nil, 0, cause(err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a folder")
	}
	r, ok := file.(readerAt)
	if err == nil && !ok {
		err = errors.New("the file system cannot read at an offset")
	}
	if err != nil {
		file.Close()
		return nil, 0, cause(err)
	}
	return r, info.Size(), nil
}

// cause drops operation and path from an error of a file system: the caller names the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// readRecord fills b with record i of a file of records of its size.
func (f files) readRecord(path string, b []byte, i int) error {
	return f.readAt(path, b, int64(i)*int64(len(b)))
}

// readAt fills b from an offset on.
func (f files) readAt(path string, b []byte, offset int64) error {
	r, _, err := f.open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if n, err := r.ReadAt(b, offset); n < len(b) {
		return cause(err)
	}
	return nil
}
