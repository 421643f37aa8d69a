package onnx

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

// realModels lists the trained models.
func realModels(t testing.TB) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(graphtest.TestData(t), "models"), func(path string, d fs.DirEntry, err error) error {
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
	graphtest.EachVectorFile(t, func(name string, b []byte) {
		if strings.HasSuffix(name, suffix) {
			visit(name, b)
		}
	})
}
