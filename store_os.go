package qwb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"qwb/internal/file"
)

// OS is the store of the operating system's files, by any path that it takes.
type OS struct{}

// Open opens a file for reading.
func (OS) Open(name string) (fs.File, error) { return os.Open(name) }

// Path returns the name.
func (OS) Path(name string) (string, bool) { return name, true }

// Stage writes files under temporary names on the devices that they will be on, and renames them.
func (OS) Stage() Stage { return &osStage{expect: map[string]string{}} }

func sameInfo(a, b fs.FileInfo) bool { return a == b || os.SameFile(a, b) }

type osStage struct {
	folders map[string]string // temporary folder by the folder it lies in
	files   [][2]string       // temporary and final path
	expect  map[string]string
	names   file.Names // nil: the system's; tests have others
}

// flushed is how many files are written to the disk before they get their names. A folder of many samples is not worth waiting for the
// disk at each of them.
const flushed = 16

func (s *osStage) Add(path string, write func(io.Writer) error) (err error) {
	folder, err := s.folder(path)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(folder, strconv.Itoa(len(s.files))))
	if err != nil {
		return err
	}
	if err = write(f); err == nil && len(s.files) < flushed {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return &FileError{File: path, Err: file.Plain(err)}
	}
	s.files = append(s.files, [2]string{f.Name(), path})
	return nil
}

// folder returns a temporary folder on the device that path will be on: in the nearest folder above it that exists.
func (s *osStage) folder(path string) (string, error) {
	above, err := existing(path)
	if err != nil {
		return "", err
	}
	if folder, ok := s.folders[above]; ok {
		return folder, nil
	}
	folder, err := os.MkdirTemp(above, ".qwb-*")
	if err != nil {
		return "", err
	}
	if s.folders == nil {
		s.folders = map[string]string{}
	}
	s.folders[above] = folder
	return folder, nil
}

// existing is the nearest folder above a path that exists.
func existing(path string) (string, error) {
	for above := filepath.Dir(path); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		switch {
		case err == nil && !info.IsDir():
			return "", &fs.PathError{Op: "write", Path: above, Err: syscall.ENOTDIR}
		case err == nil:
			return above, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
}

func (s *osStage) Expect(name, sum string) { s.expect[name] = sum }

// Commit holds the locks of the folders meanwhile, so that of two programs that want to replace what they read one comes later and is
// told, and the files of one commit are never mixed with those of another.
func (s *osStage) Commit() error {
	var folders []string
	for _, f := range s.files {
		if info, err := os.Stat(f[1]); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder", f[1])
		}
		if above, err := existing(f[1]); err == nil {
			folders = append(folders, above)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) { // in one order everywhere, so that nobody waits in a circle
		defer file.LockFolder(folder)()
	}
	for name, sum := range s.expect {
		if b, err := os.ReadFile(name); !expected(b, err, sum) {
			return &ChangedError{name}
		}
	}
	together := file.Together{Names: s.names}
	for i, f := range s.files {
		kept := f[0] + ".old"
		if i == len(s.files)-1 {
			kept = "" // nothing comes after it that could fail
		}
		err := together.MakeFolder(filepath.Dir(f[1]))
		if err == nil {
			err = together.Rename(f[0], f[1], kept)
		}
		if err != nil {
			if err = together.Undo(err); file.Lost(err) {
				s.folders = nil // where the old content is
			}
			return &FileError{File: f[1], Err: file.Plain(err)}
		}
	}
	return nil
}

func (s *osStage) Discard() {
	for _, folder := range s.folders {
		os.RemoveAll(folder)
	}
	s.folders = nil
}
