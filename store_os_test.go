package qwb_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
)

// TestCommitTakesBackWhatItDid: where one of several files cannot get its name, the others have neither replaced nor added anything.
func TestCommitTakesBackWhatItDid(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("there", []byte("old"), 0o644))
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	stage := qwb.OS{}.Stage()
	defer stage.Discard()
	require.NoError(t, stage.Add("there", text("new")))
	require.NoError(t, stage.Add(filepath.Join("a", "b", "c"), text("new")))
	require.NoError(t, stage.Add(strings.Repeat("n", 300), text("new")))
	require.Error(t, stage.Commit())
	b, err := os.ReadFile("there")
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	require.NoDirExists(t, "a")
	stage.Discard()
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, left, 1)
}
