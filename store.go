package qwb

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"qwb/internal/file"
)

// WriteFile replaces the file at path as a whole and returns the SHA-256 of what was written.
func WriteFile(path string, write func(io.Writer) error) (sum string, err error) {
	h := sha256.New()
	if err := file.Replace(path, func(w io.Writer) error { return write(io.MultiWriter(w, h)) }); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Staging collects files under temporary names and gives them their names when all are there: all or none. Folders are made
// where they are missing. The zero value is ready; Discard has to be called in the end.
type Staging struct {
	folders map[string]string // temporary folder by the folder it lies in
	files   [][2]string       // temporary and final path
}

// Add writes the file that is to become path.
func (s *Staging) Add(path string, write func(io.Writer) error) (err error) {
	folder, err := s.folder(path)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(folder, strconv.Itoa(len(s.files))))
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Close()
	} else {
		f.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.files = append(s.files, [2]string{f.Name(), path})
	return nil
}

// folder returns a temporary folder on the device that path will be on: in the nearest folder above it that exists.
func (s *Staging) folder(path string) (string, error) {
	above := filepath.Dir(path)
	for {
		info, err := os.Stat(above)
		if err == nil && !info.IsDir() {
			return "", &fs.PathError{Op: "write", Path: above, Err: syscall.ENOTDIR}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		above = filepath.Dir(above)
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

// Commit gives the files their names.
func (s *Staging) Commit() error {
	for _, f := range s.files {
		if err := os.MkdirAll(filepath.Dir(f[1]), 0o755); err != nil {
			return err
		}
		if err := os.Rename(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes what has not got its name.
func (s *Staging) Discard() {
	for _, folder := range s.folders {
		os.RemoveAll(folder)
	}
}

// BaseName is the name of a file without folders and extension.
func BaseName(path string) string {
	b := filepath.Base(path)
	return strings.TrimSuffix(b, filepath.Ext(b))
}

// sha256File returns the SHA-256 of a file in hexadecimal.
func sha256File(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
