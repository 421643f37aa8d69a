package qwb

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/networktest"
)

const network = networktest.Small

func saveNetwork(t *testing.T, path string) {
	t.Helper()
	m := &onnx.Model{Graph: graphtest.Parse(t, network)}
	require.NoError(t, m.Save(path, onnx.SaveOptions{}))
}

// saveInputs writes n inputs of the network as folder/NN.npy.
func saveInputs(t *testing.T, folder string, n int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for i := range n {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(100+i), 1, 3, 8, 8)))
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.npy", i)), b.Bytes(), 0o644))
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}
