package file_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/filetest"
	"qwb/internal/longtest"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// TestStageIsAllOrNone: a plan, its .bak, its statistics and a file in a new folder, whatever step fails, also without hard links; with a
// temporary folder for each folder, and with one for all.
func TestStageIsAllOrNone(t *testing.T) {
	before := map[string]string{"m.plan.json.bak": "older plan", "m.plan.json": "plan", "m.stats": "statistics"}
	after := map[string]string{"m.plan.json.bak": "plan", "m.plan.json": "new plan", "m.stats": "new statistics", "new/more": "more"}
	for _, one := range []bool{false, true} {
		filetest.AllOrNone(t, before, after, func(dir string, n file.Names) error {
			stage := file.Stage{Names: n, Folders: true}
			if one {
				stage.Above = dir
			}
			defer stage.Discard()
			for _, name := range []string{"m.plan.json.bak", "new/more", "m.plan.json", "m.stats"} {
				require.NoError(t, stage.Add(filepath.Join(dir, name), text(after[name])))
			}
			return stage.Commit(nil)
		})
	}
}

// What was staged can be read before it has its name, under its name, beside the others of its folder.
func TestStagedFilesCanBeRead(t *testing.T) {
	dir := t.TempDir()
	stage := file.Stage{Folders: true, Above: dir}
	defer stage.Discard()
	out := filepath.Join(dir, "new")
	require.Empty(t, stage.At(out))
	require.NoError(t, stage.Add(filepath.Join(out, "m.xml"), text("xml")))
	require.NoError(t, stage.Add(filepath.Join(out, "sub", "m.bin"), text("bin")))
	require.Error(t, stage.Add(filepath.Join(out, "m.xml"), text("twice")))
	for name, want := range map[string]string{"m.xml": "xml", "sub/m.bin": "bin"} {
		b, err := os.ReadFile(filepath.Join(stage.At(out), name))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		require.Equal(t, filepath.Join(stage.At(out), name), stage.At(filepath.Join(out, name)))
	}
	require.NoDirExists(t, out)
}

func TestStageSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	var stage file.Stage
	defer stage.Discard()
	require.ErrorContains(t, stage.Add(filepath.Join(dir, "no", "a"), text("")), filepath.Join(dir, "no", "a")+": no such file")
	require.ErrorContains(t, stage.Add(filepath.Join(dir, "a"), func(io.Writer) error { return errors.New("too large") }),
		filepath.Join(dir, "a")+": too large")
	deep := file.Stage{Folders: true}
	require.ErrorContains(t, deep.Add(filepath.Join(dir, "f", "a"), text("")), filepath.Join(dir, "f")+": not a directory")

	open := file.Stage{}
	defer open.Discard()
	_, err := open.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.ErrorContains(t, open.Commit(nil), "not closed")
	folder := file.Stage{}
	require.NoError(t, folder.Add(filepath.Join(dir, "d"), text("")))
	require.ErrorContains(t, folder.Commit(nil), filepath.Join(dir, "d")+": it is a folder")
	folder.Discard()

	refused := file.Stage{}
	require.NoError(t, refused.Add(filepath.Join(dir, "f"), text("new")))
	require.EqualError(t, refused.Commit(func() error { return errors.New("changed") }), "changed")
	refused.Discard()
	b, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Empty(t, b)
}

// One folder by two names is locked once: a second lock would wait for the first for ever.
func TestStageLocksAFolderOnce(t *testing.T) {
	dir := t.TempDir()
	if os.Symlink(dir, filepath.Join(dir, "link")) != nil {
		t.Skip("no links here")
	}
	var stage file.Stage
	require.NoError(t, stage.Add(filepath.Join(dir, "a"), text("a")))
	require.NoError(t, stage.Add(filepath.Join(dir, "link", "b"), text("b")))
	done := make(chan error, 1)
	go func() { done <- stage.Commit(nil) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(longtest.Hang):
		require.Fail(t, "the commit waits for itself")
	}
	require.FileExists(t, filepath.Join(dir, "b"))
}
