package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Names are the operations on names that Together needs. OSNames are the system's own; tests take others, which have no links or fail.
type Names interface {
	Lstat(path string) (fs.FileInfo, error)
	Link(old, path string) error
	Rename(old, path string) error
	Remove(path string) error
	Mkdir(path string) error
	// Create makes an empty file where nothing is, else the error is an fs.ErrExist.
	Create(path string) error
}

// OSNames are the operating system's.
type OSNames struct{}

func (OSNames) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }
func (OSNames) Link(old, path string) error            { return os.Link(old, path) }
func (OSNames) Rename(old, path string) error          { return os.Rename(old, path) }
func (OSNames) Remove(path string) error               { return os.Remove(path) }
func (OSNames) Mkdir(path string) error                { return os.Mkdir(path, 0o755) }
func (OSNames) Create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// Together gives files their names so that all of it can be taken back: either Undo or Done ends it. The zero value is ready, one
// goroutine at a time may use it.
type Together struct {
	Names Names // nil: OSNames
	steps []step
}

// step is one thing that was done.
type step struct {
	path, kept string // kept: where what had the name before is; empty where nothing had it
	folder     bool
}

func (t *Together) names() Names {
	if t.Names == nil {
		return OSNames{}
	}
	return t.Names
}

// Rename gives a staged file its name. What had the name before is kept under the name kept, which nothing has yet and which has to be on
// the same device; an empty one says that this is the last step, which nothing will take back. A second name (a hard link) keeps it, so
// that path is there at every moment; where the file system has none, or refuses one, it is moved there. Whatever fails, path is what it
// was, but for a LostError.
func (t *Together) Rename(staged, path, kept string) error {
	n := t.names()
	if kept == "" {
		return n.Rename(staged, path)
	}
	info, err := n.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = n.Rename(staged, path); err == nil {
			t.steps = append(t.steps, step{path: path})
		}
		return err
	case err != nil:
		return err
	case info.IsDir(): // which could be moved out of the way, and must not
		return &fs.PathError{Op: "rename", Path: path, Err: errors.New("is a folder")}
	}
	linked := n.Link(path, kept) == nil
	if !linked {
		if err := n.Rename(path, kept); err != nil {
			return err
		}
	}
	s := step{path: path, kept: kept}
	if err := n.Rename(staged, path); err == nil {
		t.steps = append(t.steps, s)
		return nil
	} else if !linked {
		return joined(err, s.back(n))
	} else {
		_ = n.Remove(kept) // the second name of what is at path
		return err
	}
}

// Place gives a staged file a name that nothing may have: an fs.ErrExist says that something has it. A second name cannot replace what
// somebody else puts there meanwhile. Where the file system has none, an empty file takes the name first:
// for a moment it is there before its content.
func (t *Together) Place(staged, path string) error {
	n := t.names()
	if _, err := n.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if n.Link(staged, path) != nil {
		if err := n.Create(path); err != nil {
			return err
		}
		if err := n.Rename(staged, path); err != nil {
			return joined(err, n.Remove(path))
		}
	} else {
		_ = n.Remove(staged) // a file too much does no harm
	}
	t.steps = append(t.steps, step{path: path})
	return nil
}

// MakeFolder makes a folder, and those above it that are missing.
func (t *Together) MakeFolder(dir string) error {
	n := t.names()
	if _, err := n.Lstat(dir); err == nil || dir == filepath.Dir(dir) {
		return err
	}
	if err := t.MakeFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	err := n.Mkdir(dir)
	if err == nil {
		t.steps = append(t.steps, step{path: dir, folder: true})
	} else if errors.Is(err, fs.ErrExist) { // somebody else was faster
		err = nil
	}
	return err
}

// LostError says that the content that a file had could not be put back, and where it is.
type LostError struct {
	Path, Kept string
	Err        error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("what %s held before could not be put back (%v): it is in %s", e.Path, e.Err, e.Kept)
}

func (e *LostError) Unwrap() error { return e.Err }

// back undoes a step.
func (s *step) back(n Names) error {
	switch {
	case s.folder:
		_ = n.Remove(s.path) // somebody else may have put a file there: then it stays
	case s.kept != "":
		if err := n.Rename(s.kept, s.path); err != nil {
			return &LostError{s.path, s.kept, Plain(err)}
		}
	default:
		return n.Remove(s.path)
	}
	return nil
}

// Undo takes back what was done, the last first, because of err. It returns err, and with it what could not be taken back.
func (t *Together) Undo(err error) error {
	for _, s := range slices.Backward(t.steps) {
		err = joined(err, s.back(t.names()))
	}
	t.steps = nil
	return err
}

// joined is errors.Join on one line, where the first is not nil; it says of which file the first is no more.
func joined(err, more error) error {
	if more == nil {
		return err
	}
	return fmt.Errorf("%w; %w", Plain(err), more)
}

// Done removes what was kept: what was done stays.
func (t *Together) Done() {
	for _, s := range t.steps {
		if s.kept != "" {
			_ = t.names().Remove(s.kept) // a file too much does no harm
		}
	}
	t.steps = nil
}

// Lost reports whether an error has a LostError in it: the folder of the kept files must not be removed then.
func Lost(err error) bool { return errors.As(err, new(*LostError)) }
