package server_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/internal/workbench"
	"qwb/internal/workbench/server"
)

// world makes two roots and a folder that is none, with links between them, and the store of the roots.
func world(t *testing.T) (roots *server.Roots, a, b, out string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege here")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	a, b, out = filepath.Join(top, "a"), filepath.Join(top, "b"), filepath.Join(top, "out")
	for _, dir := range []string{a, b, out, filepath.Join(a, "sub"), filepath.Join(a, "checkpoint")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for _, file := range []string{filepath.Join(a, "in.txt"), filepath.Join(b, "b.txt"), filepath.Join(out, "secret"),
		filepath.Join(a, "checkpoint", "config.json")} {
		require.NoError(t, os.WriteFile(file, []byte(filepath.Base(file)), 0o600))
	}
	for link, to := range map[string]string{
		"a/link":                         "in.txt",
		"a/absolute":                     a + "/in.txt",
		"a/other":                        "../b/b.txt",
		"a/secret":                       "../out/secret",
		"a/secret-absolute":              out + "/secret",
		"a/folder":                       "../out",
		"a/twice":                        "secret",
		"a/dangling":                     "../out/new",
		"a/checkpoint/model.safetensors": "../../out/secret",
		"sideways":                       "a",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(top, link)))
	}
	roots, err = server.OpenRoots(a, b)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, roots.Close()) })
	t.Chdir(top)
	return roots, a, b, out
}

// TestRootsHoldNothingElse: names, links and places of new files lead nowhere else.
func TestRootsHoldNothingElse(t *testing.T) {
	roots, a, _, out := world(t)
	for name, content := range map[string]string{
		"a/in.txt": "in.txt", a + "/in.txt": "in.txt", "./a/sub/../in.txt": "in.txt", "a/link": "in.txt", "a/absolute": "in.txt",
		"b/b.txt": "b.txt", "a/other": "b.txt",
	} {
		b, err := fs.ReadFile(roots, name)
		require.NoError(t, err, name)
		assert.Equal(t, content, string(b), name)
		path, ok := roots.Path(name)
		assert.True(t, ok, name)
		assert.Equal(t, name, path)
	}
	for _, name := range []string{"out/secret", out + "/secret", "a/../out/secret", "a/secret", "a/secret-absolute", "a/folder",
		"a/folder/secret",
		"a/twice", "a/dangling", "a/folder/new", "/etc/passwd", "/", "..", ".", "", "sideways/secret", "out/nothing", "a/in.txt\x00"} {
		_, err := roots.Open(name)
		assert.ErrorAs(t, err, new(*server.OutsideError), name)
		_, err = fs.Stat(roots, name)
		assert.ErrorAs(t, err, new(*server.OutsideError), name)
		_, ok := roots.Path(name)
		assert.False(t, ok, name)
		stage := roots.Stage()
		assert.ErrorAs(t, stage.Add(name, func(io.Writer) error { return nil }), new(*server.OutsideError), name)
		stage.Discard()
	}
	there, _ := roots.Open("out/secret")
	_, missing := roots.Open("out/nothing")
	assert.Nil(t, there)
	assert.Equal(t, "open out/nothing: out/nothing lies in no folder that qwb serve may read; --root DIR allows one more", missing.Error(),
		"as of one that is there")

	_, err := roots.Open("a/nothing")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.NotErrorIs(t, err, fs.ErrPermission)
}

// TestRootsLookAtWhatIsReadAlong: a checkpoint is refused where one of its files is a link to elsewhere.
func TestRootsLookAtWhatIsReadAlong(t *testing.T) {
	roots, _, _, _ := world(t)
	for _, name := range []string{"a/checkpoint", "a/checkpoint/config.json"} {
		_, ok := roots.Path(name)
		assert.False(t, ok, name)
	}
	// links beside a file that is read alone say nothing of it
	for _, name := range []string{"a/stories.bin", "a/m.plan.json", "a/boxes.json"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		_, ok := roots.Path(name)
		require.True(t, ok, name)
	}
	require.NoError(t, os.Symlink("../out/secret", "a/tokenizer.json"))
	_, ok := roots.Path("a/stories.bin")
	assert.False(t, ok)
}

// TestRootsWrite: new files and folders in the roots, none through a link.
func TestRootsWrite(t *testing.T) {
	roots, _, _, out := world(t)
	for _, name := range []string{"a/new/deep/x.json", "a/in.txt", "b/y"} {
		sum, err := qwb.WriteFile(roots, name, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
		if errors.Is(err, fs.ErrNotExist) { // no folders are made by this one
			stage := roots.Stage()
			require.NoError(t, stage.Add(name, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }))
			require.NoError(t, stage.Commit())
			stage.Discard()
		} else {
			require.NoError(t, err)
			assert.Len(t, sum, 64)
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, "new", string(b))
	}
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestRootsDoNotWaitForPipes: opening one would wait for its other end.
func TestRootsOpenFilesOnly(t *testing.T) {
	roots, _, _, _ := world(t)
	makePipe(t, "a/pipe")
	_, err := roots.Open("a/pipe")
	assert.ErrorContains(t, err, "not a regular file")
}

// TestLinksAreListedAsWhatTheyLeadTo: a linked folder of samples can be entered; what a link cannot reach is not there.
func TestLinksAreListedAsWhatTheyLeadTo(t *testing.T) {
	roots, a, b, _ := world(t)
	require.NoError(t, os.Symlink(b, filepath.Join(a, "images")))
	bench := workbench.New(workbench.Options{Project: qwb.Project{Store: roots}, Roots: roots.Names()})
	defer bench.Close()
	r, err := bench.Call(t.Context(), "files", []byte(`{"dir": "`+a+`"}`), "")
	require.NoError(t, err)
	dirs := map[string]bool{}
	for _, e := range r.(*workbench.Listing).Entries {
		dirs[e.Label] = e.Dir
	}
	assert.Equal(t, map[string]bool{"images": true, "checkpoint": true, "sub": true, "in.txt": false, "link": false, "absolute": false,
		"other": false}, dirs)
}

// TestRootsReadWhatIsGranted: a file with those that have its name, or a folder, can be read; nothing beside it, nothing that its
// links lead to, and nothing is written there.
func TestRootsReadWhatIsGranted(t *testing.T) {
	roots, _, _, out := world(t)
	for _, name := range []string{"out/m.onnx", "out/m.onnx_data", "out/m.bin", "out/mm.onnx", "out/deep/x.png", "third/y.onnx", "third/z"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(name), 0o600))
	}
	require.NoError(t, os.Symlink("../../third/z", "out/deep/link.png"))
	require.NoError(t, os.Symlink("../third/y.onnx", "out/linked.onnx"))
	reads := func(name string) bool {
		_, ok := roots.Path(name)
		_, err := fs.ReadFile(roots, name)
		assert.Equal(t, ok, err == nil, name)
		return ok
	}
	assert.False(t, reads("out/m.onnx"))
	for _, name := range []string{"out/m.onnx", "out/deep", "out/linked.onnx"} {
		assert.True(t, roots.Read(name), name)
	}
	for _, name := range []string{"out/m.onnx", out + "/m.onnx", "out/m.onnx_data", "out/m.bin", "out/deep/x.png", "out/linked.onnx"} {
		assert.True(t, reads(name), name)
	}
	for _, name := range []string{"out/mm.onnx", "out/secret", "out/deep/link.png", "out/deep/../secret", "a/secret"} {
		assert.False(t, reads(name), name)
	}
	for _, name := range []string{"out/m.onnx", "out/m.onnx.new", "out/deep/new"} {
		stage := roots.Stage()
		assert.ErrorAs(t, stage.Add(name, func(io.Writer) error { return nil }), new(*server.OutsideError), name)
		stage.Discard()
	}
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for _, name := range []string{"/", home, filepath.Dir(home), "out/none"} {
		assert.False(t, roots.Read(name), name)
	}
	assert.Equal(t, 2, len(roots.Names()), "what is only read is no folder to look around in")
}
