package file_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/file"
)

func TestReplaceKeepsTheOldFileUntilTheNewIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.bin")
	require.NoError(t, file.Replace(path, func(w io.Writer) error { _, err := io.WriteString(w, "old"); return err }))
	err := file.Replace(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of the ne")
		return errors.New("disk full")
	})
	require.ErrorContains(t, err, "a.bin: disk full")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(b))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "a temporary file is left behind")
}

func TestReplaceErrorsNameThePath(t *testing.T) {
	dir := t.TempDir()
	nothing := func(io.Writer) error { return nil }
	assert.ErrorContains(t, file.Replace(filepath.Join(dir, "no", "a.bin"), nothing), filepath.Join("no", "a.bin"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d", "full"), 0o755))
	assert.ErrorContains(t, file.Replace(filepath.Join(dir, "d"), nothing), filepath.Join(dir, "d")+": ")
}

func TestOpenMapsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	b, release, err := file.Open(path)
	require.NoError(t, err)
	assert.Equal(t, "content", string(b))
	require.NoError(t, release())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	b, release, err = file.Open(path)
	require.NoError(t, err)
	assert.Empty(t, b)
	require.NoError(t, release())

	_, _, err = file.Open(filepath.Dir(path))
	assert.ErrorContains(t, err, "not a regular file")
	_, _, err = file.Open(path + "x")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestForgottenPartsAreReadAgain: forgetting any part of a mapping, or memory that is none, changes no byte.
func TestForgottenPartsAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	want := make([]byte, 5*os.Getpagesize()+17)
	for i := range want {
		want[i] = byte(i * 7)
	}
	require.NoError(t, os.WriteFile(path, want, 0o600))
	m, err := file.OpenMapping(path)
	require.NoError(t, err)
	for _, part := range [][2]int{{0, len(want)}, {3, 10}, {100, 3 * os.Getpagesize()}, {len(want), len(want)}} {
		m.Forget(m.Bytes[part[0]:part[1]])
		require.Equal(t, want, m.Bytes)
	}
	other := append([]byte(nil), want...)
	m.Forget(other)
	assert.Equal(t, want, other)
	require.NoError(t, m.Release())
}
