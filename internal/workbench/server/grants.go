package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// grant is a folder that is only read: all that lies in it, or the files of some names.
type grant struct {
	root
	names []string // and what has their name with more behind it; nil for all
}

// Read lets a file or a folder be read, and nothing be written there. With a file come those beside it that have its name with another
// ending, as weights beside a model. A folder that holds the user's home is refused: it is no folder of samples. Reports whether it may be
// read now.
func (r *Roots) Read(name string) bool {
	path, err := filepath.Abs(name)
	if err != nil || strings.ContainsRune(name, 0) {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(real)
	switch {
	case err != nil || !info.IsDir() && !info.Mode().IsRegular():
		return false
	case info.IsDir():
		return !holdsHome(real) && r.grant(path, real, "")
	}
	folder, base := filepath.Dir(path), filepath.Base(path)
	if above := unlinked(folder); real != filepath.Join(above, base) { // a link: what it leads to
		return r.grant(filepath.Dir(real), filepath.Dir(real), filepath.Base(real))
	}
	return r.grant(folder, unlinked(folder), base)
}

// grant adds a folder, or one name in it.
func (r *Roots) grant(path, real, name string) bool {
	for i := range r.read {
		g := &r.read[i]
		if g.path == path && g.real == real && (g.names == nil) == (name == "") {
			if name != "" && !slices.Contains(g.names, name) {
				g.names = append(g.names, name)
			}
			return true
		}
	}
	dir, err := os.OpenRoot(real)
	if err != nil {
		return false
	}
	g := grant{root: root{path, path, real, dir}}
	if name != "" {
		g.names = []string{name}
	}
	r.read = append(r.read, g)
	return true
}

// granted is find among what is only read.
func (r *Roots) granted(name string) (dir *os.Root, rel string, ok bool) {
	path, err := filepath.Abs(name)
	if err != nil || len(r.read) == 0 || strings.ContainsRune(name, 0) {
		return nil, "", false
	}
	for _, path := range []string{path, unlinked(path)} {
		for i := range r.read {
			g := &r.read[i]
			for _, top := range []string{g.path, g.real} {
				rel, err := filepath.Rel(top, path)
				if err == nil && filepath.IsLocal(rel) && g.has(rel) && leads(g.dir, rel) == inside {
					return g.dir, rel, true
				}
			}
		}
	}
	return nil, "", false
}

// has reports whether a name in the folder is one of those that may be read.
func (g *grant) has(rel string) bool {
	return g.names == nil || slices.ContainsFunc(g.names, func(name string) bool {
		return rel == name || filepath.Dir(rel) == "." &&
			(strings.HasPrefix(rel, strings.TrimSuffix(name, filepath.Ext(name))+".") || strings.HasPrefix(rel, name+"_"))
	})
}

// unlinked is a name without links, where there is such a file.
func unlinked(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// holdsHome reports whether a folder is the user's home, or one that this lies in.
func holdsHome(real string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Dir(real) == real // at least not everything
	}
	rel, err := filepath.Rel(real, unlinked(home))
	return err != nil || filepath.IsLocal(rel) || filepath.Dir(real) == real
}
