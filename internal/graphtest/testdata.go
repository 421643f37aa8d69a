package graphtest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestData returns the folder with real models and conformance tests, and skips the test where there is none.
func TestData(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and conformance/")
	}
	return dir
}

// EachVectorFile calls visit with every regular file of the ONNX backend tests, in the order of the archive, and skips the test where
// there are none.
func EachVectorFile(t testing.TB, visit func(name string, b []byte)) {
	t.Helper()
	f, err := os.Open(filepath.Join(TestData(t), "conformance", "onnx-backend-tests.tar.gz"))
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
		if h.Typeflag == tar.TypeReg {
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			visit(strings.TrimPrefix(h.Name, "./"), b)
		}
	}
}
