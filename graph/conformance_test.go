package graph_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// testdata returns the folder with real models and conformance tests, and skips the test where there is none.
func testdata(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and conformance/")
	}
	return dir
}

// archive returns the files of the ONNX backend tests by folder and name below it.
func archive(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata(t), "conformance", "onnx-backend-tests.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		dir, name := path.Split(h.Name)
		if base := path.Base(dir); strings.HasPrefix(base, "test_data_set_") {
			dir, name = path.Dir(path.Clean(dir)), base+"/"+name
		}
		dir = path.Clean(dir)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		if files[dir] == nil {
			files[dir] = map[string][]byte{}
		}
		files[dir][name] = b
	}
}

// TestInferredShapesOfBackendTests infers every model of the ONNX backend tests from its recorded inputs and compares the
// outputs with the recorded ones.
func TestInferredShapesOfBackendTests(t *testing.T) {
	exact, open, skipped := 0, map[string]int{}, map[string]int{}
	for dir, files := range archive(t) {
		raw, ok := files["model.onnx"]
		if !ok {
			continue
		}
		m, _, err := onnx.Read(bytes.NewReader(raw), int64(len(raw)), nil)
		require.NoError(t, err, dir)
		g := m.Graph
		if op := unknownOp(g); op != "" {
			skipped[op]++
			continue
		}
		for _, v := range g.Values() {
			if val := g.Value(v); g.Producer(v) != graph.NoNode {
				val.DType, val.Shape = tensor.Undefined, nil
			}
		}
		for i, v := range g.Inputs {
			if _, in, err := onnx.ReadTensor(files[fmt.Sprintf("test_data_set_0/input_%d.pb", i)]); err == nil && in != nil && in.DType != 0 {
				g.SetConst(v, in)
			}
		}
		for _, err := range graph.InferShapes(g) {
			t.Errorf("%s: %v", dir, err)
		}
		for i, v := range g.Outputs {
			_, want, err := onnx.ReadTensor(files[fmt.Sprintf("test_data_set_0/output_%d.pb", i)])
			if err != nil || want == nil || want.DType == 0 {
				continue
			}
			val := g.Value(v)
			got, known := val.Shape.Ints()
			switch {
			case val.DType != want.DType && val.DType != 0:
				t.Errorf("%s output %d: %s, recorded %s", dir, i, graph.FormatType(val.DType, val.Shape), want.Type())
			case !known:
				open[dir]++
			case fmt.Sprint(got) != fmt.Sprint(want.Shape) || val.DType == 0:
				t.Errorf("%s output %d: %s, recorded %s", dir, i, graph.FormatType(val.DType, val.Shape), want.Type())
			default:
				exact++
			}
		}
	}
	t.Logf("%d exact, open %v, skipped %v", exact, open, skipped)
}

func unknownOp(g *graph.Graph) string {
	for _, id := range g.Nodes() {
		if n := g.Node(id); n.Spec() == nil {
			return n.Domain + "::" + n.Op
		}
	}
	return ""
}
