package onnx

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared returns the folder with real models and conformance tests, and skips the test where there is none.
func shared(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and conformance/")
	}
	return dir
}

// realModels lists the trained models.
func realModels(t testing.TB) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(shared(t), "models"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".onnx") {
			list = append(list, path)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(list), 20)
	return list
}

// conformance calls visit with every file of the ONNX backend tests whose name ends in suffix.
func conformance(t testing.TB, suffix string, visit func(name string, b []byte)) {
	t.Helper()
	f, err := os.Open(filepath.Join(shared(t), "conformance", "onnx-backend-tests.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if strings.HasSuffix(h.Name, suffix) {
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			visit(h.Name, b)
		}
	}
}
