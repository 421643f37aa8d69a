package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"qwb/internal/file"
)

// Read reads a plan file.
func Read(path string) (*Plan, error) {
	f, err := file.OpenRead(path)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > MaxBytes {
		return nil, fmt.Errorf("plan: %s: %d bytes are more than a plan may have (%d)", path, info.Size(), MaxBytes)
	}
	src, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return Parse(path, src)
}

// Write writes the plan to path. A file that is there is kept as path.bak unless it has the same content already, in which case
// nothing is written. Both files are replaced as a whole, and only when both are on the disk: whatever fails, path holds either
// the old plan or the new one, path.bak what it held or the old plan, and no other file is left behind.
func (p *Plan) Write(path string) error {
	if edited, err := p.Edited(); err != nil || edited {
		return errors.Join(err, fmt.Errorf("plan: the numbers in %s were edited", path))
	}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	old, err := file.ReadFile(path)
	exists := err == nil
	switch {
	case exists && bytes.Equal(old, b):
		return nil
	case !exists && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("plan: %w", err)
	}
	return writeBoth(path, b, old, exists, nil)
}

// writeBoth writes the new plan, and the old one as its copy, both or none.
func writeBoth(path string, now, old []byte, exists bool, names file.Names) error {
	stage := file.Stage{Names: names}
	defer stage.Discard()
	add := func(path string, b []byte) error {
		return stage.Add(path, func(w io.Writer) error { _, err := w.Write(b); return err })
	}
	var err error
	if exists {
		err = add(path+".bak", old)
	}
	if err == nil {
		err = add(path, now)
	}
	if err == nil {
		err = stage.Commit(nil)
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// Relative returns how a plan at planPath refers to another file: relative to the plan's folder where that is possible, with
// forward slashes.
func Relative(planPath, file string) string {
	dir, err1 := filepath.Abs(filepath.Dir(planPath))
	abs, err2 := filepath.Abs(file)
	if err1 != nil || err2 != nil { // a program without a folder that it works in, such as a page in a browser
		dir, abs = filepath.Dir(planPath), file
	}
	rel, err := filepath.Rel(dir, abs)
	if err != nil { // another drive, or only one of them starts at the root
		return filepath.ToSlash(abs)
	}
	return filepath.ToSlash(rel)
}

// Resolve is the inverse of Relative: the path under which to open a file that a plan at planPath refers to.
func Resolve(planPath, ref string) string {
	ref = filepath.FromSlash(ref)
	if filepath.IsAbs(ref) {
		return ref
	}
	return filepath.Join(filepath.Dir(planPath), ref)
}
