// Package release_test makes a short release twice.
package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// TestTwoReleasesAreEqual: two runs for one platform give the same bytes, the sums are those of the files, and the archive holds what it
// should.
func TestTwoReleasesAreEqual(t *testing.T) {
	longtest.Need(t, "builds releases")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: releases are not built")
	}
	for _, file := range []string{"release.py", "../python/wheel.py"} { // so that the test cache notices when one changes
		_, err := os.ReadFile(file)
		require.NoError(t, err)
	}
	var sums [2]string
	var dir string
	for i := range sums {
		dir = filepath.Join(t.TempDir(), "dist")
		out, err := exec.Command(python, "-B", "release.py", "-o", dir, "--only", "linux-amd64", "--version", "9.8.7rc1").Output()
		require.NoError(t, err, string(out))
		b, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		require.NoError(t, err)
		require.Equal(t, string(out), string(b))
		sums[i] = string(b)
	}
	require.Equal(t, sums[0], sums[1])
	lines := strings.Split(strings.TrimSpace(sums[0]), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256(b)))
	}
	files := untar(t, filepath.Join(dir, "qwb-9.8.7rc1-linux-amd64.tar.gz"))
	for _, want := range []string{"qwb", "README.md", "docs/python.md", "man/man1/qwb.1", "man/man1/qwb-calibrate.1", "completions/qwb.bash",
		"completions/_qwb"} {
		require.Contains(t, files, "qwb-9.8.7rc1-linux-amd64/"+want)
	}
	require.Contains(t, string(files["qwb-9.8.7rc1-linux-amd64/man/man1/qwb.1"]), "qwb 9.8.7rc1")
	require.False(t, bytes.Contains(files["qwb-9.8.7rc1-linux-amd64/qwb"], []byte(dirOf(t))), "a path of this machine stands in the program")
}

// TestTheDockerfileIsUpToDate: Go and version are those of the sources.
func TestTheDockerfileIsUpToDate(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		return string(b)
	}
	docker := read("Dockerfile")
	for file, pattern := range map[string]string{"go.mod": `(?m)^go (\d+\.\d+)`, "cmd/qwb/version.go": `version = "([^"]+)"`} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(file))
		require.NotNil(t, found, file)
		require.Contains(t, docker, map[string]string{"go.mod": "golang:" + found[1] + "-", "cmd/qwb/version.go": " VERSION=" +
			found[1] + " "}[file])
	}
}

// dirOf is the folder of the sources.
func dirOf(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return dir + string(filepath.Separator) + "cmd"
}

// untar reads a .tar.gz and holds every file of it to one date and no owner.
func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.True(t, z.ModTime.IsZero())
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Equal(t, 1980, h.ModTime.UTC().Year(), h.Name)
		require.Zero(t, h.Uid+h.Gid, h.Name)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}
