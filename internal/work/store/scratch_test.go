package store

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is written through a scratch store does not get to the disk, also where its base has a path for every name.
func TestScratchKeepsWhatIsWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	s := &Scratch{Base: OS{}}
	_, err := WriteFile(In(t.Context(), s), name, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err })
	require.NoError(t, err)
	require.NoFileExists(t, name)
	require.Equal(t, "text", string(s.File(name)))
	b, err := ReadFile(s, name, 10)
	require.NoError(t, err)
	require.Equal(t, "text", string(b))
}
