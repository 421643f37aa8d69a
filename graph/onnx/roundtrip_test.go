package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRealModelsKeepTheirBytes opens and saves every trained model.
func TestRealModelsKeepTheirBytes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.onnx")
	for _, path := range realModels(t) {
		m, _, err := Open(path)
		if !assert.NoError(t, err) {
			continue
		}
		require.NoError(t, m.Save(out, SaveOptions{}), path)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := os.ReadFile(out)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%s is not written as it was read", path)
		digest, err := m.Digest()
		require.NoError(t, err)
		assert.Equal(t, sum(want), digest)
		require.NoError(t, m.Close())
	}
}

// TestConformanceModelsKeepTheirBytes reads and writes every model of the ONNX backend tests.
func TestConformanceModelsKeepTheirBytes(t *testing.T) {
	models := 0
	conformance(t, ".onnx", func(name string, b []byte) {
		models++
		m, _, err := Read(bytes.NewReader(b), int64(len(b)), nil)
		if !assert.NoError(t, err, name) {
			return
		}
		var out bytes.Buffer
		if assert.NoError(t, m.Write(&out), name) {
			assert.True(t, bytes.Equal(b, out.Bytes()), "%s is not written as it was read", name)
		}
	})
	assert.Greater(t, models, 1800)
}
