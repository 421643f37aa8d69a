// Package store is where the files of a project lie: in the operating system, in memory, or in a copy that is thrown away.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"qwb/internal/file"
)

// Store is where a project's files are: model, data, plan, statistics, exports. Files are opened by the names that a project and its
// options give them; files that are opened can be read at an offset (io.ReaderAt), and folders can be listed. A store may be used by
// several projects at once.
type Store interface {
	fs.FS
	// Path is the name under which the operating system knows a file, false where it knows none. Checkpoints of language models, their
	// tokenizers and texts, and models with weights in files of their own are read and written by this name alone.
	Path(name string) (string, bool)
	// Stage begins to write files.
	Stage() Stage
}

// Stage collects files that get their names together, when all are there: all or none.
type Stage interface {
	// Add writes the content that the file is to have. Folders are made where they are missing.
	Add(name string, write func(io.Writer) error) error
	// Expect says what the file has to hold until the new ones get their names, as SHA-256 in hexadecimal: what was read, so that nobody
	// else's work is overwritten. An empty sum says that no such file may be there.
	Expect(name, sum string)
	// Commit gives the files their names, in the order in which they were added. Where a file does not hold what is expected, the error is
	// a fault.ChangedError, and nothing changes.
	Commit() error
	// Discard removes what has not got its name. It has to be called in the end; after Commit it does nothing.
	Discard()
}

// WriteFile replaces a file as a whole and returns the SHA-256 of what was written.
func WriteFile(s Store, name string, write func(io.Writer) error) (sum string, err error) {
	h := sha256.New()
	hashed := func(w io.Writer) error { return write(io.MultiWriter(w, h)) }
	if path, ok := s.Path(name); ok && !keeps(s) {
		err = file.Replace(path, hashed)
	} else {
		stage := s.Stage()
		defer stage.Discard()
		if err = stage.Add(name, hashed); err == nil {
			err = stage.Commit()
		}
	}
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(s Store, name string, limit int64) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var content file.Content
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes are more than %d", name, info.Size(), limit)
	}
	n, err := io.Copy(&content, io.LimitReader(f, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return content.Bytes(), err
}

// ReadAt opens a file to read it at any offset.
func ReadAt(s Store, name string) (r io.ReaderAt, size int64, end func() error, err error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, 0, nil, err
	}
	info, err := f.Stat()
	r, ok := f.(io.ReaderAt)
	if err == nil && (!ok || !info.Mode().IsRegular()) {
		err = fmt.Errorf("%s: not a regular file", name)
	}
	if err != nil {
		_ = f.Close() // the error that matters is err
		return nil, 0, nil, err
	}
	return r, info.Size(), f.Close, nil
}

// expected reports whether a file, as it was read, is what a stage expects.
func expected(b []byte, err error, sum string) bool {
	if sum == "" {
		return Missing(err)
	}
	return err == nil && Sum(b) == sum
}

func Sum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Missing reports whether an error says that a file is not there.
func Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// BaseName is the name of a file without folders and extension.
func BaseName(name string) string {
	b := path.Base(filepath.ToSlash(name))
	return strings.TrimSuffix(b, path.Ext(b))
}

// BytesOf writes bytes.
func BytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// PlanSuffix is how the names of plans end.
const PlanSuffix = ".plan.json"

// FreePlan is the name of a plan that is not there yet: name, name.2, name.3 and so on.
func FreePlan(files fs.FS, name string) string {
	file := name + PlanSuffix
	for n := 2; ; n++ {
		if _, err := fs.Stat(files, file); err != nil {
			return file
		}
		file = fmt.Sprintf("%s.%d%s", name, n, PlanSuffix)
	}
}

// StatsPath is where the statistics lie that belong to a plan.
func StatsPath(plan string) string { return strings.TrimSuffix(plan, PlanSuffix) + ".stats" }
