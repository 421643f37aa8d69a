// Package filetest holds what gives files their names together to its word: all or none, whatever fails, also without hard links.
package filetest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
)

var errFault = errors.New("a fault of the test")

// names are the system's, without links or with them, of which one operation fails, or all from one on.
type names struct {
	file.OSNames
	links, broken bool // broken: what comes after the first fault fails too
	at, calls     int
}

func (n *names) fault() error {
	if n.calls++; n.calls == n.at || n.broken && n.calls > n.at {
		return errFault
	}
	return nil
}

func (n *names) Link(old, path string) error {
	if err := n.fault(); err != nil {
		return err
	}
	if !n.links {
		return errors.ErrUnsupported
	}
	return n.OSNames.Link(old, path)
}

func (n *names) Rename(old, path string) error {
	if err := n.fault(); err != nil {
		return err
	}
	return n.OSNames.Rename(old, path)
}

func (n *names) Remove(path string) error {
	if err := n.fault(); err != nil {
		return err
	}
	return n.OSNames.Remove(path)
}

func (n *names) Mkdir(path string) error {
	if err := n.fault(); err != nil {
		return err
	}
	return n.OSNames.Mkdir(path)
}

func (n *names) Create(path string) error {
	if err := n.fault(); err != nil {
		return err
	}
	return n.OSNames.Create(path)
}

// AllOrNone runs commit in folders that hold the files of before, with every operation failing in its turn, and requires that the folder
// holds before or after, as commit says. Where putting back fails too, old content must be there, and the error must say where.
func AllOrNone(t *testing.T, before, after map[string]string, commit func(dir string, n file.Names) error) {
	t.Helper()
	for _, links := range []bool{true, false} {
		for _, broken := range []bool{false, true} {
			for at := 1; ; at++ {
				require.Less(t, at, 100)
				dir := t.TempDir()
				for name, text := range before {
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
				}
				n := &names{links: links, broken: broken, at: at}
				err := commit(dir, n)
				found := content(t, dir)
				switch {
				case err == nil:
					for name, text := range after { // a file too much may be left where removing it failed
						require.Equal(t, text, found[name], "links %v, fault at %d", links, at)
					}
				case broken:
					requireKept(t, dir, before, found, err)
				default:
					require.Equal(t, before, found, "links %v, fault at %d: %v", links, at, err)
					for name := range after { // folders of before are none here
						if folder := filepath.Dir(name); folder != "." {
							require.NoDirExists(t, filepath.Join(dir, folder), "links %v, fault at %d: %v", links, at, err)
						}
					}
				}
				if n.calls < at {
					require.NoError(t, err)
					require.Equal(t, after, found)
					break
				}
			}
		}
	}
}

// requireKept finds the content that every file had: under its name, or where the error says.
func requireKept(t *testing.T, dir string, before, found map[string]string, err error) {
	t.Helper()
	for name, text := range before {
		if found[name] == text {
			continue
		}
		there := false
		for other, held := range found {
			there = there || held == text && strings.Contains(err.Error(), filepath.Join(dir, other))
		}
		require.True(t, there, "the content of %s is lost: %v; %v", name, err, maps.Clone(found))
	}
}

// content lists the files below a folder, hidden ones too.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return files
}
