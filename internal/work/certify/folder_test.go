package certify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/store"
)

// TestSumOfAFolder: masks in folders below count, by links too; a folder without folders has the sum that it always had.
func TestSumOfAFolder(t *testing.T) {
	dir := t.TempDir()
	sum := func() string {
		s, err := sumOfFiles(store.OS{}, filepath.Join(dir, "masks"))
		require.NoError(t, err)
		return s
	}
	write := func(name, text string) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("masks/b.png", "b")
	write("masks/a.png", "a")
	flat := store.Sum([]byte(store.Sum([]byte("a")) + " \"a.png\"\n" + store.Sum([]byte("b")) + " \"b.png\"\n"))
	require.Equal(t, flat, sum())
	seen := map[string]bool{flat: true}
	change := func(name, text string) {
		write(name, text)
		require.False(t, seen[sum()], "%s: %q changes nothing", name, text)
		seen[sum()] = true
	}
	change("masks/val/deep/c.png", "c")
	change("masks/val/deep/c.png", "d")
	write("elsewhere/e.png", "e")
	if os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "masks", "link")) == nil {
		change("elsewhere/e.png", "f")
		require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere", "e.png"), filepath.Join(dir, "masks", "one.png")))
		change("elsewhere/e.png", "g")
		require.NoError(t, os.Symlink(filepath.Join(dir, "masks"), filepath.Join(dir, "masks", "val", "circle")))
		require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "masks", "dangling")))
		require.True(t, seen[sum()], "a link to a folder above, and one to nothing, add nothing")
	}
}
