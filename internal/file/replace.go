package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes the file at path through a temporary one beside it, which gets the name when it is complete and on the disk:
// whatever fails, path holds either what it held or the new content, and nothing else is left behind. The file can be read by all.
// An error names path.
func Replace(path string, write func(io.Writer) error) error {
	staged, err := Stage(path, write)
	if err != nil {
		return err
	}
	return Commit(staged, path)
}

// Stage is the first half of Replace: it writes the temporary file and returns its name.
func Stage(path string, write func(io.Writer) error) (staged string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, Plain(err)) // the error names the temporary file
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if err = write(f); err != nil {
		return "", err
	}
	if err = f.Chmod(0o644); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return "", err
	}
	if err = f.Sync(); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// Commit is the second half: it gives a staged file its name, or removes it.
func Commit(staged, path string) error {
	if err := os.Rename(staged, path); err != nil {
		os.Remove(staged)
		return fmt.Errorf("%s: %w", path, Plain(err))
	}
	return nil
}

// Plain strips the path from an error of package os, for callers that name the file themselves. What more is said with it stays.
func Plain(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 1 {
		return err
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
