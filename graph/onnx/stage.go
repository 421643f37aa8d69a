package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"qwb/internal/file"
)

// stage is a set of files that appear under their names together or not at all, as far as a file system allows that.
type stage struct {
	files []stagedFile
	names file.Names // nil: the system's; tests have others
}

type stagedFile struct{ temp, path string }

// add writes a file under a temporary name beside path and flushes it to the disk.
func (s *stage) add(path string, content io.WriterTo) error {
	f, err := createBeside(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, stagedFile{f.Name(), path})
	w := bufio.NewWriterSize(f, 1<<16)
	_, err = content.WriteTo(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// createBeside creates a new file in the folder of path, with the permissions that a file made there normally gets.
func createBeside(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d.%d.tmp", base, os.Getpid(), i)),
			os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, os.ErrExist) || i == 1000 {
			return f, err
		}
	}
}

// commit renames the files in the order in which they were added.
func (s *stage) commit() error {
	together := file.Together{Names: s.names}
	for i, f := range s.files {
		kept := f.temp + ".old"
		if i == len(s.files)-1 {
			kept = "" // nothing comes after it that could fail
		}
		if err := together.Rename(f.temp, f.path, kept); err != nil {
			return together.Undo(err)
		}
	}
	together.Done()
	var err error
	for _, f := range s.files {
		err = errors.Join(err, syncFolder(filepath.Dir(f.path)))
	}
	s.files = nil
	return err
}

// discard removes what was not committed.
func (s *stage) discard() {
	for _, f := range s.files {
		_ = os.Remove(f.temp) // it may not exist; there is nothing else to do
	}
	s.files = nil
}

// syncFolder makes renames in a folder durable, on systems where folders can be flushed.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "plan9" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // some network file systems refuse; the files themselves are flushed
	return nil
}
