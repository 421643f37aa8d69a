package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatOneSystemLacks: a function that only the files of one system have is missed on another, and a constant that fits into 64 bits
// alone on 32; a module that is whole has no findings.
func TestWhatOneSystemLacks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module m\n\ngo 1.24\n",
		"a/a_windows.go": "package a\n\nfunc F() int { return 1 }\n",
		"b/b.go":         "package b\n\nimport (\n\t\"net/http\"\n\n\t\"m/a\"\n)\n\nvar B = a.F() + http.StatusOK\n",
		"a/a.go":         "package a\n\nconst Large = 1 << 40\n",
		"c/c.go":         "package c\n\nimport \"m/a\"\n\nvar C int = a.Large\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range []struct{ goos, goarch, want string }{
		{"windows", "amd64", ""},
		{"linux", "arm64", "undefined: a.F"},
		{"windows", "386", "cannot use a.Large"},
	} {
		list, err := packages(dir, c.goos, c.goarch)
		require.NoError(t, err)
		var said bytes.Buffer
		n, err := check(list, c.goarch, &said)
		require.Equal(t, 3, n)
		if c.want == "" {
			require.NoError(t, err, said.String())
			continue
		}
		require.ErrorContains(t, err, "1 packages are wrong")
		require.Contains(t, said.String(), c.want)
	}
}
