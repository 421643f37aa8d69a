package export

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"qwb/graph"
	"qwb/internal/file"
)

// File is a file that was written.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Output is where a format writes: files under temporary names, which get theirs together or not at all. It is for one goroutine.
type Output struct {
	path    string // of the file, or of the folder, that the user named
	folder  bool
	ctx     context.Context // ends writing; nil: nothing does
	into    Stage           // nil: files of the operating system, which are in stage
	stage   file.Stage
	files   []*staged
	figures map[string]int64
}

// Stage takes files that are not those of the operating system, and gives them their names together.
type Stage interface {
	// Add writes the content that the file is to have.
	Add(name string, write func(io.Writer) error) error
	Commit() error
	// Discard forgets what has not got its name.
	Discard()
}

// staged is a file that has no name yet.
type staged struct {
	name   string // relative, with slashes
	temp   string // of the operating system
	memory file.Content
	sum    string // empty until the file is closed
	size   int64  // bytes
}

// NewOutput returns the output of a format whose file, or folder where its Ext is empty, is to be called path. It is a file of the
// operating system, unless into is given. Discard has to be called in the end.
func (f *Format) NewOutput(path string, into Stage) *Output {
	o := &Output{path: path, folder: f.Ext == "", into: into, figures: map[string]int64{}}
	o.stage.Folders = true
	o.stage.Above = filepath.Dir(path) // one temporary folder for all, so that what was written can be read before it has its name
	if above, err := file.Above(path); o.folder && err == nil {
		o.stage.Above = above
	}
	return o
}

// In makes writing end with the error of a context. It returns o.
func (o *Output) In(ctx context.Context) *Output {
	o.ctx = ctx
	return o
}

// Name is the name of the file that the user named, without folders: the one to give to Create for it. Of a folder it is "".
func (o *Output) Name() string {
	if o.folder {
		return ""
	}
	return filepath.Base(o.path)
}

// Create makes a file. name is relative, with slashes: to the folder of the file that the user named, or to the folder that he
// named. Each name can be used once. The file is whole when it is closed.
func (o *Output) Create(name string) (io.WriteCloser, error) {
	if name == "" || !filepath.IsLocal(filepath.FromSlash(name)) || name != path.Clean(name) {
		return nil, fmt.Errorf("export: %q is no name of a file", name)
	}
	if o.file(name) != nil {
		return nil, fmt.Errorf("export: %q is written twice", name)
	}
	s := &staged{name: name}
	w := &writer{ctx: o.ctx, staged: s, path: o.final(s), hash: sha256.New()}
	if o.into != nil {
		o.files = append(o.files, s)
		w.buffer = bufio.NewWriter(io.MultiWriter(&s.memory, w.hash))
		return w, nil
	}
	f, err := o.stage.Create(o.final(s))
	if err != nil {
		return nil, fileError(err)
	}
	o.files = append(o.files, s)
	s.temp, w.file = f.Name(), f
	w.buffer = bufio.NewWriterSize(io.MultiWriter(f, w.hash), 1<<16)
	return w, nil
}

// Write is Create, a function that writes, and Close.
func (o *Output) Write(name string, write func(io.Writer) error) error {
	w, err := o.Create(name)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		_ = w.Close() // the file will be discarded
		return &graph.FileError{File: o.path, Err: err}
	}
	return w.Close()
}

// Staged is where a file that was written can be read before it has its name, "" where it is none of the operating system.
func (o *Output) Staged(name string) string {
	if s := o.file(name); s != nil {
		return s.temp
	}
	return ""
}

// FS is what was written, for reading it back before the files have their names. It has no folders in memory.
func (o *Output) FS() fs.FS { return written{o} }

// Folder is where files of the operating system stand before they have their names; "" before the first.
func (o *Output) Folder() string { return o.stage.At(o.home()) }

// home is the folder that the names are relative to.
func (o *Output) home() string {
	if o.folder {
		return o.path
	}
	return filepath.Dir(o.path)
}

// Bytes is what was written to a file that is none of the operating system.
func (o *Output) Bytes(name string) []byte {
	if s := o.file(name); s != nil {
		return s.memory.Bytes()
	}
	return nil
}

// External is Bytes for readers of ONNX models.
func (o *Output) External(name string) ([]byte, error) {
	if o.file(name) == nil {
		return nil, fmt.Errorf("no file %q was written", name)
	}
	return o.Bytes(name), nil
}

func (o *Output) file(name string) *staged {
	if i := slices.IndexFunc(o.files, func(s *staged) bool { return s.name == name }); i >= 0 {
		return o.files[i]
	}
	return nil
}

// Figure reports a number about what was written, for people and for JSON: arena_bytes, for one.
func (o *Output) Figure(name string, value int64) { o.figures[name] = value }

// Figures are the numbers that were reported, by name. The names in order are the first result.
func (o *Output) Figures() (names []string, values map[string]int64) {
	return slices.Sorted(maps.Keys(o.figures)), o.figures
}

// final is the path that a file gets.
func (o *Output) final(s *staged) string {
	return filepath.Join(o.home(), filepath.FromSlash(s.name))
}

// Paths are the names that the files get, in the order in which they were made.
func (o *Output) Paths() []string {
	list := make([]string, len(o.files))
	for i, s := range o.files {
		list[i] = o.final(s)
	}
	return list
}

// Written is a file that is whole and has no name yet. Name is relative, with slashes.
type Written struct {
	Name   string
	SHA256 string
	Bytes  int64
}

// Written are the files that are whole, the one that the user named first.
func (o *Output) Written() (list []Written) {
	for _, s := range o.files {
		if s.sum == "" {
			continue
		}
		w := Written{s.name, s.sum, s.size}
		if s.name == o.Name() {
			list = slices.Insert(list, 0, w)
		} else {
			list = append(list, w)
		}
	}
	return list
}

// Commit gives all files their names and returns them, the one that the user named first, the others in the order in which they were
// made. If one cannot get its name, those that had been there before are put back.
func (o *Output) Commit() ([]File, error) {
	var list []File
	for _, s := range o.files {
		if err := o.add(s); err != nil {
			return nil, &graph.FileError{File: o.final(s), Err: file.Plain(err)}
		}
		f := File{Path: o.final(s), SHA256: s.sum}
		if s.name == o.Name() {
			list = slices.Insert(list, 0, f)
		} else {
			list = append(list, f)
		}
	}
	commit := func() error { return fileError(o.stage.Commit(nil)) }
	if o.into != nil {
		commit = o.into.Commit
	}
	if err := commit(); err != nil {
		return nil, err
	}
	o.Discard()
	return list, nil
}

// add hands a whole file to the stage that is none of the operating system.
func (o *Output) add(s *staged) error {
	switch {
	case s.sum == "":
		return errors.New("the file was not closed")
	case o.into == nil:
		return nil
	}
	return o.into.Add(o.final(s), s.memory.CopyTo)
}

// fileError is an error of a stage as one of a file.
func fileError(err error) error {
	if e := (*file.Error)(nil); errors.As(err, &e) {
		return &graph.FileError{File: e.Path, Err: e.Err}
	}
	return err
}

// Discard removes what has not got its name.
func (o *Output) Discard() {
	if o.into != nil {
		o.into.Discard()
	}
	o.stage.Discard()
	o.files = nil
}

// writer writes one file.
type writer struct {
	ctx    context.Context
	staged *staged
	path   string
	file   io.Closer // nil: in memory
	buffer *bufio.Writer
	hash   hash.Hash
	closed bool
}

func (w *writer) Write(b []byte) (n int, err error) {
	for piece := range slices.Chunk(b, file.Piece) {
		if w.ctx != nil && w.ctx.Err() != nil {
			return n, w.ctx.Err()
		}
		k, err := w.buffer.Write(piece)
		n, w.staged.size = n+k, w.staged.size+int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close may be called twice.
func (w *writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.buffer.Flush()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	if err != nil {
		return &graph.FileError{File: w.path, Err: file.Plain(err)}
	}
	w.staged.sum = hex.EncodeToString(w.hash.Sum(nil))
	return nil
}
