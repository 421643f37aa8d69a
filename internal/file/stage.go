package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// Stage writes files under temporary names and gives them theirs together: all or none, on every file system (Together). It is the one home
// of files that appear together. The zero value is ready; it is for one goroutine, and Discard has to end it.
type Stage struct {
	Names   Names // nil: OSNames
	Folders bool  // makes folders that are missing; else that of every file has to be there
	// Above is the folder that the temporary one of all files is made in. Empty: each file has one on its own device,
	// in the nearest folder above it.
	Above string
	temps map[string]string // temporary folder by the folder that it lies in
	ends  []func()          // of these folders
	files []*Writer
	lost  bool // a temporary folder has what could not be put back
}

// Hidden is how the names of temporary folders begin, which lie beside the files that they are for.
const Hidden = ".qwb-"

// Error says which file could not be written.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Writer writes a file of a Stage. Close ends it, and may be called twice.
type Writer struct {
	*os.File
	path, kept    string // the name that it gets; where what had this name before is kept
	flush, closed bool
}

// Close flushes the file to the disk.
func (w *Writer) Close() (err error) {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.flush {
		err = w.Sync()
	}
	if err = errors.Join(err, w.File.Close()); err != nil {
		return &Error{w.path, Plain(err)}
	}
	return nil
}

// flushed is how many files are flushed to the disk before they get their names. A folder of many samples is not worth waiting for the disk
// at each of them.
const flushed = 16

// Create begins a file, which is to be called path.
func (s *Stage) Create(path string) (*Writer, error) {
	above, err := s.above(path)
	if at := (*fs.PathError)(nil); errors.As(err, &at) && errors.Is(err, syscall.ENOTDIR) {
		path = at.Path // it is this that is wrong
	}
	if err == nil && s.temps[above] == "" {
		err = s.begin(above)
	}
	if err != nil {
		return nil, &Error{path, Plain(err)}
	}
	temp := s.temps[above]
	at := filepath.Join(temp, "new", s.under(above, path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, &Error{path, Plain(err)}
	}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, &Error{path, Plain(err)}
	}
	w := &Writer{File: f, path: path, kept: filepath.Join(temp, fmt.Sprint(len(s.files))), flush: len(s.files) < flushed}
	s.files = append(s.files, w)
	return w, nil
}

// Add creates a file that has the content which write writes.
func (s *Stage) Add(path string, write func(io.Writer) error) error {
	w, err := s.Create(path)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		_ = w.Close() // it will be discarded
		return &Error{path, Plain(err)}
	}
	return w.Close()
}

// At is where a file, or a folder with files, is before it has its name: "" for what the stage has nothing of. Files of one folder have the
// same names there, beside each other.
func (s *Stage) At(path string) string {
	above, err := s.above(path)
	if err != nil || s.temps[above] == "" {
		return ""
	}
	return filepath.Join(s.temps[above], "new", s.under(above, path))
}

// above is the folder in which the temporary folder of a path is made.
func (s *Stage) above(path string) (string, error) {
	if s.Above != "" {
		return s.Above, nil
	}
	if s.Folders {
		return Above(path)
	}
	dir := filepath.Dir(path)
	_, err := os.Stat(dir)
	return dir, err
}

// under is a path below above.
func (s *Stage) under(above, path string) string {
	if rel, err := filepath.Rel(above, path); err == nil {
		return rel
	}
	return filepath.Base(path)
}

func (s *Stage) begin(above string) error {
	temp, end, err := Temporary(above, Hidden)
	if err != nil {
		return err
	}
	if s.temps == nil {
		s.temps = map[string]string{}
	}
	s.temps[above] = temp
	s.ends = append(s.ends, end)
	return nil
}

// Above is the nearest folder above a path that exists.
func Above(path string) (string, error) {
	for above := filepath.Dir(path); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		switch {
		case err == nil && !info.IsDir():
			return "", &fs.PathError{Op: "write", Path: above, Err: syscall.ENOTDIR}
		case err == nil:
			return above, nil
		case !errors.Is(err, fs.ErrNotExist) || above == filepath.Dir(above):
			return "", err
		}
	}
}

// Commit gives the files their names, in the order in which they were created. Whatever fails, all is as it was before, but for a
// LostError. Of several files the locks of the folders are held meanwhile, so that those of two programs are never mixed; check, if it is
// not nil, is called under these locks before anything changes, and its error ends the commit.
func (s *Stage) Commit(check func() error) error {
	for _, w := range s.files {
		if !w.closed {
			return &Error{w.path, errors.New("the file was not closed")}
		}
		if info, err := os.Stat(w.path); err == nil && info.IsDir() {
			return &Error{w.path, errors.New("it is a folder")}
		}
	}
	if len(s.files) > 1 || check != nil {
		for _, folder := range s.folders() {
			defer LockFolder(folder)()
		}
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	together := Together{Names: s.Names}
	for i, w := range s.files {
		if err := s.place(&together, w, i == len(s.files)-1); err != nil {
			err = together.Undo(err)
			s.lost = Lost(err)
			return &Error{w.path, Plain(err)}
		}
	}
	for _, w := range s.files {
		flushFolder(filepath.Dir(w.path))
	}
	s.Discard()
	return nil
}

// place gives a file its name. Nothing that could fail comes after the last.
func (s *Stage) place(together *Together, w *Writer, last bool) error {
	if s.Folders {
		if err := together.MakeFolder(filepath.Dir(w.path)); err != nil {
			return err
		}
	}
	kept := w.kept
	if last {
		kept = ""
	}
	return together.Rename(w.Name(), w.path, kept)
}

// folders lists the folders that exist and get something, each once and in one order everywhere, so that nobody waits in a circle.
func (s *Stage) folders() []string {
	var list []string
	for _, w := range s.files {
		dir, err := Above(w.path)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			list = append(list, dir)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Discard removes what has not got its name.
func (s *Stage) Discard() {
	for _, w := range s.files {
		_ = w.Close() // what was not closed goes with the folder
	}
	for _, end := range s.ends {
		if !s.lost { // else what a file held before is there
			end()
		}
	}
	s.files, s.temps, s.ends = nil, nil, nil
}

// flushFolder makes the new names in a folder durable, where folders can be flushed.
func flushFolder(dir string) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "plan9" {
		return
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // some network file systems refuse; the files themselves are flushed
		_ = d.Close()
	}
}
