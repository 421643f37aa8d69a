package qwb

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
)

// The store in memory is a file system like any other.
func TestMemoryIsAFileSystem(t *testing.T) {
	m := new(Memory)
	for _, name := range []string{"a", "d/b", "d/e/c", "/f/g", `d/../h`} {
		m.Write(name, []byte("content of "+name))
	}
	require.NoError(t, fstest.TestFS(strict{m}, "a", "d/b", "d/e/c", "f/g", "h"))
	_, err := m.Open("nothing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	b, ok := m.Read("./d/b")
	require.True(t, ok)
	require.Equal(t, "content of d/b", string(b))
}

// strict refuses the names that a store takes and fs.FS does not.
type strict struct{ fs.FS }

func (s strict) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return s.FS.Open(name)
}

// Files of a stage appear together, or none does; what failed leaves nothing.
func TestStageIsAllOrNone(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		put(t, p.job().Files(), "x", []byte("old"))
		stage := p.job().Files().Stage()
		require.NoError(t, stage.Add("x", store.BytesOf([]byte("new"))))
		require.ErrorContains(t, stage.Add("y", func(w io.Writer) error {
			_, _ = io.WriteString(w, "half")
			return errors.New("disk full")
		}), "disk full")
		stage.Discard()
		require.Equal(t, "old", string(get(t, p, "x")))
		_, err := store.ReadFile(p.job().Files(), "y", 1)
		require.ErrorIs(t, err, fs.ErrNotExist)
		list, err := fs.ReadDir(p.job().Files(), ".")
		require.NoError(t, err)
		for _, e := range list {
			require.NotEqual(t, byte('.'), e.Name()[0], e.Name())
		}
	})
}

// A file in the place of a folder, or a folder in the place of a file, is an error before anything changes.
func TestStageOverAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, OS{}, "d/x", nil)
	stage := OS{}.Stage()
	defer stage.Discard()
	require.NoError(t, stage.Add("a", store.BytesOf(nil)))
	require.NoError(t, stage.Add("d", store.BytesOf(nil)))
	require.ErrorContains(t, stage.Commit(), "d: it is a folder")
	_, err := fs.Stat(OS{}, "a")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, stage.Add("d/x/y", store.BytesOf(nil)), "not a directory")
}

// Of many who add one to what they read, each is counted: whoever came too late is told, reads again and adds to that.
func TestNoChangeIsLost(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		put(t, p.job().Files(), "n", []byte("0"))
		const workers, each = 6, 15
		var all sync.WaitGroup
		fail := make(chan error, workers)
		for range workers {
			all.Add(1)
			go func() {
				defer all.Done()
				for done := 0; done < each; {
					err := increment(p.job().Files())
					if changed := (*ChangedError)(nil); errors.As(err, &changed) {
						continue
					}
					if err != nil {
						fail <- err
						return
					}
					done++
				}
			}()
		}
		all.Wait()
		close(fail)
		require.NoError(t, <-fail)
		require.Equal(t, strconv.Itoa(workers*each), string(get(t, p, "n")))
	})
}

func increment(s Store) error {
	b, err := store.ReadFile(s, "n", 100)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	stage := s.Stage()
	defer stage.Discard()
	stage.Expect("n", store.Sum(b))
	if err := stage.Add("n", store.BytesOf([]byte(strconv.Itoa(n+1)))); err != nil {
		return err
	}
	return stage.Commit()
}

// Two calibrations of one plan at once leave the plan and the statistics of one of them.
func TestTwoCalibrationsOfOnePlan(t *testing.T) {
	stores(t, func(t *testing.T, p *Project) {
		for i := range 3 {
			b := get(t, p, "m/0"+strconv.Itoa(i)+".npy")
			put(t, p.job().Files(), "fewer/0"+strconv.Itoa(i)+".npy", b)
		}
		for range 5 {
			var both sync.WaitGroup
			for _, data := range []string{"m", "fewer"} {
				both.Add(1)
				go func() {
					defer both.Done()
					calibrateOn(t, p, data)
				}()
			}
			both.Wait()
			planned, _, err := p.OpenPlan()
			require.NoError(t, err)
			_, err = planning.PlanStats(p.job(), planned)
			require.NoError(t, err)
			require.NoError(t, planned.Close())
		}
	})
}

// fenced has no file whose name says secret.
type fenced struct{ OS }

func (f fenced) Open(name string) (fs.File, error) {
	if strings.Contains(name, "secret") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.OS.Open(name)
}

func (f fenced) Path(name string) (string, bool) { return name, !strings.Contains(name, "secret") }

// TestTextsAreFilesOfTheStore: what is read by the system's own path, texts and tokenizers, is asked of the store first.
func TestTextsAreFilesOfTheStore(t *testing.T) {
	dir := t.TempDir()
	secret, model := filepath.Join(dir, "secret"), filepath.Join(dir, "model.bin")
	for _, name := range []string{secret, model} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	p := &Project{Model: model, Store: fenced{}}
	ctx := context.Background()
	_, _, err := p.EvalText(ctx, TextOptions{Text: secret})
	require.ErrorIs(t, err, fs.ErrPermission)
	_, _, err = p.EvalText(ctx, TextOptions{Text: model, Against: secret})
	require.ErrorIs(t, err, fs.ErrPermission)
	_, _, err = p.AnalyzeText(ctx, TextOptions{Text: secret})
	require.ErrorIs(t, err, fs.ErrPermission)
	_, _, err = p.Generate(ctx, GenerateOptions{LanguageOptions: LanguageOptions{Tokenizer: secret}})
	require.ErrorIs(t, err, fs.ErrPermission)
	_, _, err = (&Project{Model: secret, Store: fenced{}}).Generate(ctx, GenerateOptions{})
	require.ErrorIs(t, err, fs.ErrPermission)
}
