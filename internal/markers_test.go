package internal_test

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoMergeMarkers looks into every file that git tracks, documents too, for the lines that a merge leaves where it found no answer.
func TestNoMergeMarkers(t *testing.T) {
	files := tracked(t)
	require.Greater(t, len(files), 1000)
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join("..", file))
		if os.IsNotExist(err) { // removed and not yet committed
			continue
		}
		require.NoError(t, err)
		if n := mergeMarker(b); n > 0 {
			t.Errorf("%s:%d is left of a merge", file, n)
		}
	}
}

func TestMergeMarkersAreFound(t *testing.T) {
	// Put together, so that this file has none itself.
	ours, base, theirs := strings.Repeat("<", 7), strings.Repeat("|", 7), strings.Repeat(">", 7)
	for _, line := range []string{ours + " HEAD", base + " 1234567", theirs + " 1234567 (a: b)", ours, theirs} {
		for _, end := range []string{"\n", "\r\n", ""} {
			require.Equal(t, 2, mergeMarker([]byte("text\n"+line+end)), "%q", line)
		}
	}
	for _, text := range []string{"", "text\n=======\n", " " + ours + " HEAD\n", "a " + theirs + " b\n", theirs + ">\n", "<<<<<< x\n",
		"\x00\n" + ours + " HEAD\n"} {
		require.Zero(t, mergeMarker([]byte(text)), "%q", text)
	}
}

// mergeMarker is the number of the first line that a merge left, 0 for none. A line of equals signs alone may be a title.
func mergeMarker(b []byte) int {
	if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 { // no text, by git's own rule
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if len(line) < 7 || len(line) > 7 && line[7] != ' ' {
			continue
		}
		if slices.Contains([]string{strings.Repeat("<", 7), strings.Repeat("|", 7), strings.Repeat(">", 7)}, line[:7]) {
			return n
		}
	}
	return 0
}

// tracked lists the files that git tracks, by path in the module. Where this is no repository all files are taken.
func tracked(t *testing.T) (files []string) {
	t.Helper()
	git := exec.Command("git", "ls-files", "-z")
	git.Dir = ".."
	if out, err := git.Output(); err == nil && len(out) > 0 {
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	require.NoError(t, filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(file), "../"))
		}
		return err
	}))
	return files
}
