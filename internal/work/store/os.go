package store

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"qwb/internal/file"
	"qwb/internal/work/fault"
)

// OS is the store of the operating system's files, by any path that it takes.
type OS struct{}

// Open opens a regular file, or a folder, for reading.
func (OS) Open(name string) (fs.File, error) { return file.OpenRead(name) }

// Path returns the name.
func (OS) Path(name string) (string, bool) { return name, true }

// Stage writes files under temporary names on the devices that they will be on, and renames them.
func (OS) Stage() Stage { return NewStage() }

func NewStage() *osStage { return &osStage{file.Stage{Folders: true}, map[string]string{}} }

// SameInfo reports whether two descriptions are of one file.
func SameInfo(a, b fs.FileInfo) bool { return a == b || os.SameFile(a, b) }

type osStage struct {
	file.Stage
	expect map[string]string
}

func (s *osStage) Add(path string, write func(io.Writer) error) error {
	return fileError(s.Stage.Add(path, write))
}

func (s *osStage) Expect(name, sum string) { s.expect[name] = sum }

// Commit looks at what is expected under the locks of the folders, so that of two programs that want to replace what they read one comes
// later and is told.
func (s *osStage) Commit() error {
	return fileError(s.Stage.Commit(func() error {
		for name, sum := range s.expect {
			if b, err := file.ReadFile(name); !expected(b, err, sum) {
				return &fault.ChangedError{Name: name}
			}
		}
		return nil
	}))
}

// fileError is an error of a stage as one of a file.
func fileError(err error) error {
	if e := (*file.Error)(nil); errors.As(err, &e) {
		return &fault.FileError{File: e.Path, Err: e.Err}
	}
	return err
}
