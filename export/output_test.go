package export_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
)

// content lists the files below a folder, hidden ones too.
func content(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
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

func put(t testing.TB, out *export.Output, name, text string) {
	t.Helper()
	require.NoError(t, out.Write(name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}))
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

func TestFilesGetTheirNamesTogether(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.bin"), []byte("old"), 0o600))
	f := export.Format{Ext: ".param"}
	out := f.NewOutput(filepath.Join(dir, "m.param"), nil)
	defer out.Discard()
	put(t, out, "m.bin", "weights")
	put(t, out, out.Name(), "layers")
	put(t, out, "m.data/0", "more")
	require.Equal(t, map[string]string{"m.bin": "old"}, func() map[string]string {
		c := content(t, dir)
		for name := range c {
			if name[0] == '.' {
				delete(c, name)
			}
		}
		return c
	}(), "nothing has its name yet")
	b, err := os.ReadFile(out.Staged("m.bin"))
	require.NoError(t, err)
	require.Equal(t, "weights", string(b))
	files, err := out.Commit()
	require.NoError(t, err)
	require.Equal(t, []export.File{{Path: filepath.Join(dir, "m.param"), SHA256: sum("layers")},
		{Path: filepath.Join(dir, "m.bin"), SHA256: sum("weights")},
		{Path: filepath.Join(dir, "m.data", "0"), SHA256: sum("more")}}, files, "the one that the user named is the first")
	require.Equal(t, map[string]string{"m.param": "layers", "m.bin": "weights", "m.data/0": "more"}, content(t, dir))
	info, err := os.Stat(files[0].Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

func TestAFileThatCannotGetItsNameTakesTheOthersBack(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "c", "full"), 0o700)) // no file can be called c
	f := export.Format{Ext: ".x"}
	out := f.NewOutput(filepath.Join(dir, "a"), nil)
	for _, name := range []string{"a", "b", "c"} {
		put(t, out, name, "new "+name)
	}
	_, err := out.Commit()
	require.ErrorContains(t, err, filepath.Join(dir, "c"))
	out.Discard()
	require.Equal(t, map[string]string{"a": "old"}, content(t, dir))
}

func TestNothingIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	f := export.Format{}
	out := f.NewOutput(filepath.Join(dir, "new", "folder"), nil)
	put(t, out, "tensors/0.npy", "x")
	w, err := out.Create("open")
	require.NoError(t, err)
	_, err = out.Commit()
	require.ErrorContains(t, err, "the file was not closed")
	require.NoError(t, w.Close())
	require.NoError(t, w.Close(), "closing twice is fine")
	out.Discard()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotEqual(t, '.', rune(e.Name()[0]), "a temporary folder is left")
	}

	out = f.NewOutput(filepath.Join(dir, "other", "folder"), nil)
	put(t, out, "tensors/0.npy", "x")
	_, err = out.Commit()
	require.NoError(t, err)
	require.Equal(t, "x", content(t, dir)["other/folder/tensors/0.npy"])
}

func TestNamesOfFiles(t *testing.T) {
	dir := t.TempDir()
	f := export.Format{Ext: ".x"}
	out := f.NewOutput(filepath.Join(dir, "a"), nil)
	defer out.Discard()
	put(t, out, "a", "1")
	for _, name := range []string{"", "../b", "/b", "b/../c", "a"} {
		_, err := out.Create(name)
		require.Error(t, err, name)
	}
	missing := f.NewOutput(filepath.Join(dir, "no", "a"), nil)
	_, err := missing.Create("a")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, "no", "a")+": no such file")
	failed := f.NewOutput(filepath.Join(dir, "b"), nil)
	defer failed.Discard()
	require.ErrorContains(t, failed.Write("b", func(io.Writer) error { return errors.New("too large") }),
		filepath.Join(dir, "b")+": too large")
}

// memory is a stage that is no file system.
type memory struct {
	files     map[string]string
	committed bool
}

func (m *memory) Add(name string, write func(io.Writer) error) error {
	var b writerTo
	if err := write(&b); err != nil {
		return err
	}
	m.files[name] = string(b)
	return nil
}

func (m *memory) Commit() error { m.committed = true; return nil }
func (m *memory) Discard()      {}

type writerTo []byte

func (w *writerTo) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }

func TestOutputWithoutAFileSystem(t *testing.T) {
	m := &memory{files: map[string]string{}}
	f := export.Format{Ext: ".x"}
	out := f.NewOutput("dir/a.x", m)
	defer out.Discard()
	put(t, out, out.Name(), "one")
	put(t, out, "a.y", "two")
	require.Empty(t, out.Staged("a.x"))
	require.Equal(t, "one", string(out.Bytes("a.x")))
	_, err := out.External("b")
	require.Error(t, err)
	require.Empty(t, m.files)
	files, err := out.Commit()
	require.NoError(t, err)
	require.True(t, m.committed)
	require.Equal(t, []export.File{{Path: "dir/a.x", SHA256: sum("one")}, {Path: "dir/a.y", SHA256: sum("two")}}, files)
	require.Equal(t, map[string]string{"dir/a.x": "one", "dir/a.y": "two"}, m.files)
}
