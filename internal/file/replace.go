package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// Replace writes the file at path through a temporary one, which gets the name when it is complete and on the disk (Stage): whatever fails,
// path holds either what it held or the new content, and nothing else is left behind. An error names path.
func Replace(path string, write func(io.Writer) error) error {
	var s Stage
	defer s.Discard()
	if err := s.Add(path, write); err != nil {
		return err
	}
	return s.Commit(nil)
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
