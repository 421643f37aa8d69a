package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/plain"
)

// TestNamesDoNotAct: control characters in names of nodes, tensors, operators and files reached the terminal as they were.
func TestNamesDoNotAct(t *testing.T) {
	inFolder(t)
	const evil = "n\x1b]0;owned\x07\u009b31m\u202e"
	g := graphtest.Parse(t, network)
	for i, id := range g.Nodes() {
		require.NoError(t, g.RenameNode(id, evil+strings.Repeat("i", i)))
	}
	saveGraph(t, "m.onnx", g)
	other := graphtest.Parse(t, "opset 17; input x: f32[1,3,8,8]; y = Relu(x); output y")
	other.Node(other.Nodes()[0]).Op = "Op" + evil
	saveGraph(t, "op.onnx", other)
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
	write(t, evil+".npy", []byte("nothing"))
	for _, args := range [][]string{
		{"inspect", "op.onnx"},
		{"inspect", "m.onnx", "--nodes"},
		{"calibrate", "op.onnx", "--data", "synthetic:1", "--platform", "onnxruntime"},
		{"calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "-v"},
		{"analyze", "--layerwise", "--graphwise"},
		{"verify", "--samples", "1"},
		{"run", "m.onnx", "--input", "x=" + evil + ".npy", "--output", "o"},
		{"inspect", evil},
		{evil},
	} {
		r := invoke(args...)
		for _, text := range []string{r.stdout, r.stderr} {
			require.Equal(t, -1, strings.IndexFunc(text, plain.Hidden), "qwb %q:\n%q", args, text)
		}
	}
	require.Contains(t, invoke("inspect", "m.onnx", "--nodes").stdout, `n\x1b]0;owned\x07\u009b31m\u202e`)
}

// TestNamesInGeneratedSource: bidirectional controls in comments let source be read as what it is not.
func TestNamesInGeneratedSource(t *testing.T) {
	inFolder(t)
	g := graphtest.Parse(t, network)
	for i, id := range g.Nodes() {
		require.NoError(t, g.RenameNode(id, "n\u202e\u2066*/ evil"+strings.Repeat("i", i)))
	}
	saveGraph(t, "m.onnx", g)
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	done(t, "export", "--format", "c", "-o", "m.c")
	source := read(t, "m.c")
	require.Equal(t, -1, bytes.IndexFunc(source, plain.Hidden))
	require.Contains(t, string(source), `n\u202e\u2066* / evil`)
}

// TestFilesThatAPlanCannotName: bytes of a path that are not UTF-8 became U+FFFD, and later commands did not find the file.
func TestFilesThatAPlanCannotName(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names of files are Unicode here")
	}
	workplace(t)
	saveInputs(t, "inv\xffdir", 100, 4, 1, 3, 8, 8)
	saveModel(t, "m\xff.onnx", network)
	const want = `is not UTF-8: a plan, which is JSON, cannot name this file; give it another name`
	fails(t, exitFailed, want, "calibrate", "m.onnx", "--data", "inv\xffdir", "--platform", "trt_int8")
	fails(t, exitFailed, want, "calibrate", "m\xff.onnx", "--data", "data", "--platform", "trt_int8", "-o", "p.plan.json")
	fails(t, exitFailed, want, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", "p\xff/m.plan.json", "--data",
		filepath.Join("inv\xffdir", "00.npy"))
}

// TestShapeNodesOfBoundModels: the shape of an inner value of known size was not a constant, and generated C refused the model.
func TestShapeNodesOfBoundModels(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", `opset 17
		input x: f32[N,3,8,8]
		const w: f32[4,3,3,3] = normal(seed=1, std=0.3)
		const k: f32[5,256] = normal(seed=2, std=0.1)
		const first: i64[1] = [0]; const rest: i64[1] = [-1]
		c = Conv(x, w) {pads=[1, 1, 1, 1]}
		s = Shape(c); n = Gather(s, first); to = Concat(n, rest) {axis=0}
		f = Reshape(c, to); y = Gemm(f, k) {transB=1}; output y`)
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
	done(t, "bind", "m.onnx", "--shape", "x=1,3,8,8", "-o", "b.onnx")
	nodes := done(t, "inspect", "b.onnx", "--nodes").stdout
	for _, op := range []string{"Shape", "Gather", "Concat"} {
		require.NotRegexp(t, `\b`+op+`\b +\d`, nodes)
	}
	done(t, "calibrate", "b.onnx", "--data", "data", "--platform", "onnxruntime")
	done(t, "export", "--format", "c", "-o", "b.c")
	if cc, err := exec.LookPath("gcc"); err == nil {
		out, err := exec.Command(cc, "-std=c99", "-c", "-o", os.DevNull, "b.c").CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

func saveGraph(t *testing.T, path string, g *graph.Graph) {
	t.Helper()
	m := &onnx.Model{Graph: g}
	require.NoError(t, m.Save(path, onnx.SaveOptions{}))
}
