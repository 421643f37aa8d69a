package onnx

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

// bigModel writes a chain of MatMul, Add and Relu with layers*4 MiB of weights and returns its path.
func bigModel(tb testing.TB, layers int) string {
	tb.Helper()
	g := graph.New("big", 13)
	value := func(name string) graph.ValueID {
		id, err := g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: graph.Static(1, 1024)})
		require.NoError(tb, err)
		return id
	}
	add := func(op string, out graph.ValueID, in ...graph.ValueID) graph.ValueID {
		_, err := g.AddNode(graph.Node{Op: op, Inputs: in, Outputs: []graph.ValueID{out}})
		require.NoError(tb, err)
		return out
	}
	x := value("x")
	g.Inputs = []graph.ValueID{x}
	for range layers {
		y := add("MatMul", value(""), x, g.AddConst("w", tensor.New(tensor.Float32, 1024, 1024)))
		y = add("Add", value(""), y, g.AddConst("b", tensor.New(tensor.Float32, 1024)))
		x = add("Relu", value(""), y)
	}
	g.Outputs = []graph.ValueID{x}
	path := filepath.Join(tb.TempDir(), "big.onnx")
	require.NoError(tb, (&Model{Graph: g}).Save(path, SaveOptions{}))
	return path
}

func BenchmarkOpen(b *testing.B) {
	path := bigModel(b, 25)
	b.Run("megabytes=105", func(b *testing.B) {
		for b.Loop() {
			m, _, err := Open(path)
			require.NoError(b, err)
			require.NoError(b, m.Close())
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	m, _, err := Open(bigModel(b, 25))
	require.NoError(b, err)
	defer m.Close()
	for changed, doc := range map[string]string{"no": "", "yes": "changed"} {
		b.Run("megabytes=105/changed="+changed, func(b *testing.B) {
			m.Doc = doc
			for b.Loop() {
				require.NoError(b, m.Write(io.Discard))
			}
		})
	}
}

// TestTensorsAreNotCopied opens a model, whose file is read as it is small, and bounds what that allocates beside the file by a part of
// its weights.
func TestTensorsAreNotCopied(t *testing.T) {
	if runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("files cannot be mapped here")
	}
	path := bigModel(t, 4)
	info, err := os.Stat(path)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, _, err := Open(path)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.NoError(t, m.Close())
	require.Less(t, int64(after.TotalAlloc-before.TotalAlloc)-info.Size(), info.Size()/50)
}
