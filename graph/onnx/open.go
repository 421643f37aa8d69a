package onnx

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Open reads the ONNX file at path and the files with external data beside it. They are mapped into memory where the
// system can do that and must not be changed before Close. An error names the file and the place in it; a file that is
// damaged, cut off or not ONNX is one.
func Open(path string) (*Model, []Warning, error) {
	m, warnings, err := open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("load: %s: %w", path, err)
	}
	return m, warnings, nil
}

func open(path string) (*Model, []Warning, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, plain(err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return nil, nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, plain(err)
	}
	defer f.Close()
	data, release, err := mapRegular(f)
	if err != nil {
		return nil, nil, err
	}
	dir := &folder{path: filepath.Dir(path), files: map[string][]byte{}, closers: []func() error{release}}
	m, warnings, err := parse(data, dir)
	if err != nil {
		for _, c := range dir.closers {
			_ = c() // the error that matters is err
		}
		return nil, nil, err
	}
	m.src.path, m.src.closers = path, dir.closers
	return m, warnings, nil
}

// mapRegular maps a whole regular file.
func mapRegular(f *os.File) ([]byte, func() error, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, plain(err)
	}
	if info.Size() == 0 {
		return nil, func() error { return nil }, nil
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, nil, fmt.Errorf("a file of %d bytes does not fit into the address space", info.Size())
	}
	return mapFile(f, int(info.Size()))
}

// folder resolves external data to files in a model's folder.
type folder struct {
	path    string
	files   map[string][]byte
	closers []func() error
}

// External maps a file in the folder. The system's own rooted lookup refuses paths and links that lead out of it.
func (d *folder) External(location string) ([]byte, error) {
	if b, ok := d.files[location]; ok {
		return b, nil
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, plain(err)
	}
	defer root.Close()
	name := filepath.FromSlash(location)
	info, err := root.Stat(name)
	if err != nil {
		return nil, plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	b, release, err := mapRegular(f)
	if err != nil {
		return nil, err
	}
	d.files[location] = b
	d.closers = append(d.closers, release)
	return b, nil
}

// plain strips the path from an error of package os: the caller names it.
func plain(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}
