package server

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A file that does not come whole leaves nothing, no folder either; folders that were there stay.
func TestAFileThatIsCutOffLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	dir, err := os.OpenRoot(folder)
	require.NoError(t, err)
	defer dir.Close()
	o := &root{dir: dir}
	_, err = o.add("there/a", strings.NewReader("a"))
	require.NoError(t, err)
	for _, name := range []string{"new/er/b", "there/b", "b"} {
		_, err = o.add(name, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	for path, want := range map[string]string{folder: "there", folder + "/there": "a"} {
		entries, err := os.ReadDir(path)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, want, entries[0].Name())
	}
}
