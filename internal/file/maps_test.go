//go:build linux

package file_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
)

// fileMemory is what /proc says the process has of files in its memory, in kB, those of a file system in memory included.
func fileMemory(t *testing.T) (all int) {
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		var kB int
		if n, _ := fmt.Sscanf(line, "RssFile: %d", &kB); n == 0 {
			_, _ = fmt.Sscanf(line, "RssShmem: %d", &kB)
		}
		all += kB
	}
	return all
}

// What is read of trimmed mappings leaves the process's memory by itself and reads the same afterwards; without Trim it stays.
func TestTrimmedMaps(t *testing.T) {
	const size = 160 << 20
	path := filepath.Join(t.TempDir(), "a.bin")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1, 2, 3, 4}, size/4), 0o600))
	one, err := file.OpenMapping(path)
	require.NoError(t, err)
	var m file.Maps
	m.Add(one)
	require.True(t, m.Holds(one.Bytes[5:9]))
	require.False(t, m.Holds(make([]byte, 4)))
	require.Equal(t, size/4, bytes.Count(one.Bytes, []byte{3}))
	require.Greater(t, fileMemory(t), size>>10)
	m.Trim()
	require.Eventually(t, func() bool { return fileMemory(t) < 80<<10 }, 10*time.Second, time.Millisecond)
	require.Equal(t, size/4, bytes.Count(one.Bytes, []byte{3}))
	require.NoError(t, m.Release())
	require.NoError(t, m.Release(), "a second one")
}

// What is spilled is a copy in a file that has no name while it is used, so that no way to end leaves it behind.
func TestSpill(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	want := bytes.Repeat([]byte("spill"), 3000)
	own := bytes.Clone(want)
	var m file.Maps
	got := m.Spill(own)
	clear(own)
	require.Equal(t, want, got)
	require.True(t, m.Holds(got))
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
	m.Forget(got)
	require.Equal(t, want, got)
	require.NoError(t, m.Release())
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	require.Nil(t, m.Spill(want), "there is no folder for it")
}
