package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/filetest"
)

// TestTogetherIsAllOrNone: three files, of which two were there, and one in a new folder; every operation fails once.
func TestTogetherIsAllOrNone(t *testing.T) {
	before := map[string]string{"a": "old a", "c": "old c"}
	after := map[string]string{"a": "new a", "new/b": "new new/b", "c": "new c"}
	filetest.AllOrNone(t, before, after, func(dir string, n file.Names) error {
		temp := filepath.Join(dir, ".temp")
		require.NoError(t, os.Mkdir(temp, 0o700))
		together := file.Together{Names: n}
		for i, name := range []string{"a", "new/b", "c"} {
			staged := filepath.Join(temp, string(rune('0'+i)))
			require.NoError(t, os.WriteFile(staged, []byte("new "+name), 0o600))
			path := filepath.Join(dir, name)
			err := together.MakeFolder(filepath.Dir(path))
			if err == nil {
				err = together.Rename(staged, path, staged+".old")
			}
			if err != nil {
				if err = together.Undo(err); !file.Lost(err) {
					require.NoError(t, os.RemoveAll(temp))
				}
				return err
			}
		}
		together.Done()
		return os.RemoveAll(temp)
	})
}

// A folder is not moved out of the way.
func TestTogetherReplacesNoFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "staged"), nil, 0o600))
	var together file.Together
	require.ErrorContains(t, together.Rename(filepath.Join(dir, "staged"), filepath.Join(dir, "d"), filepath.Join(dir, "kept")), "is a folder")
	require.DirExists(t, filepath.Join(dir, "d"))
}

// TestPlacedFilesAreAllOrNone: a new file in a new folder.
func TestPlacedFilesAreAllOrNone(t *testing.T) {
	filetest.AllOrNone(t, map[string]string{}, map[string]string{"new/a": "content"}, func(dir string, n file.Names) error {
		together := file.Together{Names: n}
		staged, folder := filepath.Join(dir, "staged"), filepath.Join(dir, "new")
		require.NoError(t, os.WriteFile(staged, []byte("content"), 0o600))
		defer os.Remove(staged)
		err := together.MakeFolder(folder)
		if err == nil {
			err = together.Place(staged, filepath.Join(folder, "a"))
		}
		if err != nil {
			return together.Undo(err)
		}
		together.Done()
		return nil
	})
}

// late has no links, and somebody else puts a file there just before this one gets its name.
type late struct{ file.OSNames }

func (late) Link(string, string) error { return errors.ErrUnsupported }

func (n late) Create(path string) error {
	if err := os.WriteFile(path, []byte("of somebody else"), 0o600); err != nil {
		return err
	}
	return n.OSNames.Create(path)
}

// What somebody else put there meanwhile is not replaced.
func TestPlaceReplacesNothing(t *testing.T) {
	for _, n := range []file.Names{file.OSNames{}, late{}} {
		dir := t.TempDir()
		staged, path := filepath.Join(dir, "staged"), filepath.Join(dir, "a")
		require.NoError(t, os.WriteFile(staged, []byte("content"), 0o600))
		if n == (file.OSNames{}) {
			require.NoError(t, os.WriteFile(path, []byte("of somebody else"), 0o600))
		}
		together := file.Together{Names: n}
		err := together.Place(staged, path)
		require.ErrorIs(t, err, fs.ErrExist)
		require.NoError(t, together.Undo(nil))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "of somebody else", string(b))
	}
}
