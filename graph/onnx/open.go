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
	return open(path, 0)
}

// Map is Open that maps small files too.
func Map(path string) (*Model, []graph.Warning, error) { return open(path, 1<<62) }

func open(path string, held int64) (*Model, []graph.Warning, error) {
	m, warnings, err := openBeside(path, held)
	if err != nil {
		return nil, nil, &graph.FileError{Stage: "load", File: path, Err: err}
	}
	return m, warnings, nil
}

// openBeside opens a file beside which so many bytes are in memory.
func openBeside(path string, held int64) (*Model, []graph.Warning, error) {
	data, err := load(path, held)
	if err != nil {
		return nil, nil, err
	}
	dir := &folder{path: filepath.Dir(path), files: map[string][]byte{}, held: held + int64(len(data.Bytes)), maps: []*file.Mapping{data}}
	m, warnings, err := Parse(data.Bytes, dir)
	if err != nil {
		for _, m := range dir.maps {
			_ = m.Release() // the error that matters is err
		}
		return nil, nil, err
	}
	m.src.path = path
	m.src.maps.Add(dir.maps...)
	return m, warnings, nil
}

// load reads or maps a file.
func load(path string, held int64) (*file.Mapping, error) {
	f, err := file.OpenRead(path)
	if err != nil {
		return nil, file.Plain(err)
	}
	defer f.Close()
	return file.Load(f, held)
}

// folder resolves external data to files in a model's folder.
type folder struct {
	path  string
	files map[string][]byte
	held  int64 // bytes of all files
	maps  []*file.Mapping
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
	m, err := file.Load(f, d.held)
	if err != nil {
		return nil, err
	}
	d.files[location], d.maps = m.Bytes, append(d.maps, m)
	d.held += int64(len(m.Bytes))
	return m.Bytes, nil
}
