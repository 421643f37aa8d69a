//go:build unix

package file_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/longtest"
)

// What could wait for ever is refused, by whatever name it is reached.
func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink(pipe, link))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, name := range []string{pipe, link, os.DevNull} {
			_, err := file.OpenRead(name)
			require.ErrorContains(t, err, "not a regular file")
			_, err = file.ReadFile(name)
			require.ErrorContains(t, err, name)
			_, err = file.OpenMapping(name)
			require.ErrorContains(t, err, "not a regular file")
		}
	}()
	select {
	case <-ended:
	case <-time.After(longtest.Hang):
		t.Fatal("a pipe is waited for")
	}
	f, err := file.OpenRead(dir)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// What does not answer is waited for until the context is over, and closed when it comes after all.
func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	answer, closed := make(chan struct{}), make(chan int, 1)
	time.AfterFunc(10*time.Millisecond, stop)
	_, err := file.Await(ctx, func() (int, error) { <-answer; return 7, nil }, func(v int) { closed <- v })
	require.ErrorIs(t, err, context.Canceled)
	close(answer)
	require.Equal(t, 7, <-closed)

	v, err := file.Await(ctx, func() (int, error) { return 8, nil }, nil) // what answers at once is had even then
	require.NoError(t, err)
	require.Equal(t, 8, v)
}

// Folders of runs that were killed are removed by the next one; not those of runs that live, of others, and those that hold what a file had
// in it.
func TestLeftoversOfKilledRuns(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".qwb-1/new", ".qwb-2/new", ".qwb-2/0", ".qwb-live/new", "qwb-3", ".qwb-"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".qwb-4"), nil, 0o600)) // a file
	living, done, err := file.Temporary(dir, file.Hidden)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(dir, ".qwb-1"))
	for _, name := range []string{".qwb-2/0", ".qwb-live/new", "qwb-3", ".qwb-"} {
		require.DirExists(t, filepath.Join(dir, name))
	}
	require.FileExists(t, filepath.Join(dir, ".qwb-4"))

	require.NoError(t, os.Mkdir(filepath.Join(dir, ".qwb-5"), 0o755))
	removed, kept := file.Leftovers(dir, file.Hidden)
	require.Equal(t, []string{filepath.Join(dir, ".qwb-5")}, removed)
	require.Equal(t, []string{filepath.Join(dir, ".qwb-2")}, kept)
	require.DirExists(t, living)
	done()
	require.NoDirExists(t, living)
}
