package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"qwb"
)

// Roots is the store of the files in some folders, and of nothing else: what a request, a plan or a recipe names, and what links lead to,
// is looked up by os.Root, which goes nowhere else. Names are those of the command line: absolute, or relative to the current folder. A
// link from one root into another is followed. What Read adds is read and never written.
type Roots struct {
	list []root
	read []grant
}

type root struct {
	name string // as it was given
	path string // absolute
	real string // without links
	dir  *os.Root
}

// OpenRoots opens folders. Close has to be called in the end.
func OpenRoots(names ...string) (*Roots, error) {
	r := &Roots{}
	for _, name := range names {
		if name == "" {
			name = "."
		}
		name = filepath.Clean(name)
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		dir, err := os.OpenRoot(real)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.list = append(r.list, root{name, path, real, dir})
	}
	return r, nil
}

// Close ends the use of the folders.
func (r *Roots) Close() error {
	var err error
	for _, o := range r.list {
		err = errors.Join(err, o.dir.Close())
	}
	for _, g := range r.read {
		err = errors.Join(err, g.dir.Close())
	}
	return err
}

// Names are the folders as they were given.
func (r *Roots) Names() []string {
	var names []string
	for _, o := range r.list {
		names = append(names, o.name)
	}
	return names
}

// OutsideError says that a file lies in none of the roots. It tells nothing else about the file, not even whether there is one.
type OutsideError struct{ Name string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s lies in no folder that qwb serve may read; --root DIR allows one more", e.Name)
}

// Is lets those who ask what is missing or not permitted treat it so.
func (e *OutsideError) Is(target error) bool { return target == fs.ErrPermission }

// find is the root that a name lies in, and its name there, by the name alone or without links. What is not there yet has a place too.
func (r *Roots) find(name string) (dir *os.Root, rel string, err error) {
	if dir, rel, err = r.place(name); err != nil {
		if dir, rel, ok := r.granted(name); ok {
			return dir, rel, nil
		}
	}
	return dir, rel, err
}

// place is find among the folders that may be written.
func (r *Roots) place(name string) (dir *os.Root, rel string, err error) {
	path, err := filepath.Abs(name)
	if err != nil || strings.ContainsRune(name, 0) {
		return nil, "", &OutsideError{name}
	}
	escapes := false
	for _, o := range r.list {
		for _, top := range []string{o.path, o.real} {
			rel, err := filepath.Rel(top, path)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			switch leads(o.dir, rel) {
			case inside:
				return o.dir, rel, nil
			case elsewhere:
				escapes = true
			}
		}
	}
	if escapes { // a link in a root: what it leads to may lie in another, or is an absolute name of something in this one
		if real, err := filepath.EvalSymlinks(path); err == nil {
			for _, o := range r.list {
				if rel, err := filepath.Rel(o.real, real); err == nil && filepath.IsLocal(rel) && leads(o.dir, rel) == inside {
					return o.dir, rel, nil
				}
			}
		}
	}
	return nil, "", &OutsideError{name}
}

type way int

const (
	inside    way = iota // to a file in the root, or to the place of one that is not there
	elsewhere            // out of it
)

// leads says where a name in a root leads.
func leads(dir *os.Root, rel string) way {
	for {
		_, err := dir.Stat(rel)
		switch {
		case err == nil, errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
			return inside
		case !errors.Is(err, fs.ErrNotExist):
			return elsewhere
		}
		if info, err := dir.Lstat(rel); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return elsewhere // a link to what is not there: writing through it would make that
		}
		if rel == "." {
			return inside
		}
		rel = filepath.Dir(rel)
	}
}

// Open opens a file for reading, or a folder.
func (r *Roots) Open(name string) (fs.File, error) {
	dir, rel, err := r.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if info, err := dir.Stat(rel); err == nil && !info.Mode().IsRegular() && !info.IsDir() { // opening a pipe waits for a writer
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := dir.Open(rel)
	if err != nil {
		return nil, named(err, name)
	}
	return f, nil
}

// Stat describes a file without opening it.
func (r *Roots) Stat(name string) (fs.FileInfo, error) {
	dir, rel, err := r.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	info, err := dir.Stat(rel)
	return info, named(err, name)
}

// named makes an error be about the name that was asked for.
func named(err error, name string) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return &fs.PathError{Op: p.Op, Path: name, Err: p.Err}
	}
	return err
}

// Path is the name itself, of what lies in a root. Those who open it by that name read nothing outside either: where a model is several
// files, those beside it are looked at too.
func (r *Roots) Path(name string) (string, bool) {
	dir, rel, err := r.find(name)
	if err != nil {
		return "", false
	}
	folder, several := filepath.Dir(rel), false
	if info, err := dir.Stat(rel); err == nil && info.IsDir() {
		folder, several = rel, true
	}
	if filepath.Ext(rel) == ".safetensors" || filepath.Base(rel) == "config.json" {
		several = true
	}
	above := filepath.Dir(name)
	if folder == rel {
		above = name
	}
	for _, link := range linksIn(dir, folder, several) {
		if _, _, err := r.find(filepath.Join(above, link)); err != nil {
			return "", false
		}
	}
	return name, true
}

// besides are files that are read with the checkpoint of a language model without being named.
var besides = []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer.bin", "tokenizer_config.json",
	"chat_template.jinja", "model.safetensors", "model.safetensors.index.json"}

// linksIn lists the links in a folder that may be read with a file there: all, or those of besides.
func linksIn(dir *os.Root, folder string, all bool) []string {
	var links []string
	if !all {
		for _, name := range besides {
			if info, err := dir.Lstat(filepath.Join(folder, name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				links = append(links, name)
			}
		}
		return links
	}
	f, err := dir.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1) // what cannot be listed is read by its name at most, and that is looked at then
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			links = append(links, e.Name())
		}
	}
	return links
}

// Stage writes files of the roots.
func (r *Roots) Stage() qwb.Stage { return &stage{qwb.OS{}.Stage(), r} }

// stage is that of the operating system for what lies in the roots.
type stage struct {
	qwb.Stage
	roots *Roots
}

func (s *stage) Add(name string, write func(w io.Writer) error) error {
	if _, _, err := s.roots.place(name); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return s.Stage.Add(name, write)
}
