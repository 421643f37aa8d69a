package onnx

import (
	"fmt"
	"os"
	"path/filepath"

	"qwb/graph"
	"qwb/internal/file"
)

// Open reads the ONNX file at path and the files with external data beside it. Small ones are read; large
// ones are mapped into memory where the system can do that, and must not be changed before Close. An error names the file and the place in
// it; a file that is damaged, cut off or not ONNX is one.
func Open(path string) (*Model, []graph.Warning, error) {
	m, warnings, err := open(path)
	if err != nil {
		return nil, nil, &graph.FileError{Stage: "load", File: path, Err: err}
	}
	return m, warnings, nil
}

func open(path string) (*Model, []graph.Warning, error) {
	data, release, err := load(path)
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

// load reads or maps a file.
func load(path string) ([]byte, func() error, error) {
	f, err := file.OpenRead(path)
	if err != nil {
		return nil, nil, file.Plain(err)
	}
	defer f.Close()
	return file.Load(f)
}

// folder resolves external data to files in a model's folder.
type folder struct {
	path    string
	files   map[string][]byte
	closers []func() error
}

// External loads a file in the folder. The system's own rooted lookup refuses paths and links that lead out of it.
func (d *folder) External(location string) ([]byte, error) {
	if b, ok := d.files[location]; ok {
		return b, nil
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, file.Plain(err)
	}
	defer root.Close()
	name := filepath.FromSlash(location)
	info, err := root.Stat(name)
	if err != nil {
		return nil, file.Plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, file.Plain(err)
	}
	defer f.Close()
	b, release, err := file.Load(f)
	if err != nil {
		return nil, err
	}
	d.files[location] = b
	d.closers = append(d.closers, release)
	return b, nil
}
