package main

import (
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the program may take for a browser, in bytes: as a file, and as it is sent.
const (
	mostBytes  = 33 << 20
	mostZipped = 8 << 20
)

// TestSizeForABrowser builds the program for js/wasm and holds its size. What makes it larger is seldom the code that was added: it is a
// package that it brings along, which go list -deps shows.
func TestSizeForABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles everything for another system")
	}
	file := filepath.Join(t.TempDir(), "core.wasm")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", file, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var n counter
	z, err := gzip.NewWriterLevel(&n, gzip.BestCompression)
	require.NoError(t, err)
	_, err = z.Write(b)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	t.Logf("%d bytes, %d compressed", len(b), n)
	require.Less(t, len(b), mostBytes)
	require.Less(t, int(n), mostZipped)
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
