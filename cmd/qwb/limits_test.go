package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/file"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

// allocates is how many bytes f asks for.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// sparse makes a file of so many bytes that takes no space, with some bytes at its start.
func sparse(t *testing.T, path string, size int64, head []byte) {
	t.Helper()
	write(t, path, head)
	require.NoError(t, os.Truncate(path, size))
}

// header is the start of an npy file of float32.
func header(t *testing.T, shape string) []byte {
	t.Helper()
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n", shape)
	return append([]byte("\x93NUMPY\x01\x00"), append([]byte{byte(len(dict)), 0}, dict...)...)
}

// TestInputsAreLookedAtBeforeTheyAreRead gives run files of 200 MB that are no input of the model, or more than --mem allows.
func TestInputsAreLookedAtBeforeTheyAreRead(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", network)
	saveModel(t, "open.onnx", "opset 17; input x: f32[N]; y = Relu(x); output y")
	const size = 200 << 20
	sparse(t, "zeros.npy", size, nil)
	sparse(t, "large.npy", size, header(t, "(52000000,)"))
	for _, c := range []struct{ model, file, want string }{
		{"m.onnx", "zeros.npy", "zeros.npy: npy: not a NumPy array file"},
		{"m.onnx", "large.npy", `large.npy: input "x" is f32\[1,3,8,8\], got f32\[52000000\]`},
		{"open.onnx", "large.npy", `large.npy: f32\[52000000\] takes 208000000 bytes .* more than the memory budget of 104857600 bytes; ` +
			`--mem SIZE allows more`},
	} {
		taken := allocates(func() {
			r := invoke("run", c.model, "--input", "x="+c.file, "--output", "o", "--mem", "100M")
			require.Equal(t, exitFailed, r.code)
			require.Regexp(t, c.want, r.lastLine())
			require.NoDirExists(t, "o")
		})
		require.Less(t, taken, uint64(20<<20))
	}
}

// TestArchivesAreLookedAtBeforeTheyAreRead is the same for an npz file.
func TestArchivesAreLookedAtBeforeTheyAreRead(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", network)
	var b bytes.Buffer
	require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1<<20)}))
	write(t, "x.npz", b.Bytes())
	fails(t, exitFailed, `x.npz: input "x" is f32\[1,3,8,8\], got f32\[1048576\]`, "run", "m.onnx", "--input", "x.npz", "--output", "o")
}

// TestPlansThatAreTooLargeAreNotRead: a plan of 40 GB was read up to its limit before it was refused.
func TestPlansThatAreTooLargeAreNotRead(t *testing.T) {
	inFolder(t)
	sparse(t, "m.plan.json", 40<<30, []byte("{"))
	taken := allocates(func() {
		r := invoke("analyze", "m.plan.json")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.lastLine(), "42949672960 bytes are more than")
	})
	require.Less(t, taken, uint64(20<<20))
}

// TestLoopsCanBeStopped runs a loop of 2^32 iterations for a moment.
func TestLoopsCanBeStopped(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", `opset 17; input x: f32[2]; const n: i64[] = 4294967296; const yes: bool[] = true; const one: f32[1] = [1]
		y = Loop(n, yes, x) {body=graph { input i: i64[]; input go: bool[]; input v: f32[2]; w = Add(v, one); output go; output w }}; output y`)
	saveArray(t, "x.npy", graphtest.Normal(1, 2))
	start := time.Now()
	fails(t, exitFailed, "^qwb: stopped: the time limit of --timeout was reached$", "run", "m.onnx", "--input", "x=x.npy", "--output", "o",
		"--timeout", "200ms")
	require.Less(t, time.Since(start), longtest.Hang)
	fails(t, exitUsage, "--timeout -1s: must be 0 or more", "run", "m.onnx", "--input", "x=x.npy", "--output", "o", "--timeout", "-1s")
}

// TestOutputsWithLongNames: a name that no file can have left a part of the outputs behind.
func TestOutputsWithLongNames(t *testing.T) {
	inFolder(t)
	a, b := strings.Repeat("a", 300), strings.Repeat("a", 299)+"b"
	saveModel(t, "m.onnx", "opset 17; input x: f32[2]; ok = Relu(x); "+a+" = Neg(x); "+b+" = Abs(x); output ok; output "+a+"; output "+b)
	saveArray(t, "x.npy", graphtest.Normal(1, 2))
	done(t, "run", "m.onnx", "--input", "x=x.npy", "--output", "o")
	files, err := filepath.Glob("o/*.npy")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, f := range files {
		require.LessOrEqual(t, len(filepath.Base(f)), 204)
	}
}

// TestVectorsAreAllOrNothing: verify --dump wrote files under their names one by one.
func TestVectorsAreAllOrNothing(t *testing.T) {
	calibrated(t)
	require.NoError(t, os.MkdirAll("all/program.json", 0o755)) // the file that comes last cannot get its name
	r := invoke("verify", "--samples", "1", "--dump", "all")
	require.Equal(t, exitFailed, r.code)
	for path, what := range tree(t, "all") {
		require.Equal(t, "folder", what, path)
	}
	left, err := filepath.Glob(".qwb-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestModelsThatAreCutOffWhileTheyAreUsed: reading a mapped file beyond its end is a fault. Small files are read whole, of others the
// fault is an error of the command.
func TestModelsThatAreCutOffWhileTheyAreUsed(t *testing.T) {
	inFolder(t)
	saveModel(t, "small.onnx", network)
	m, _, err := onnx.Open("small.onnx")
	require.NoError(t, err)
	w, ok := m.Graph.Lookup("w3")
	require.True(t, ok)
	require.NoError(t, os.Truncate("small.onnx", 0))
	require.Equal(t, graphtest.Parse(t, network).Name, m.Graph.Name)
	require.NotZero(t, m.Graph.Const(w).F32()[10*2048-1], "read after the file is gone")
	require.NoError(t, m.Close())

	sparse(t, "large.bin", 129<<20, nil)
	f, err := os.Open("large.bin")
	require.NoError(t, err)
	defer f.Close()
	loaded, err := file.Load(f, 0)
	require.NoError(t, err)
	defer loaded.Release()
	require.NoError(t, os.Truncate("large.bin", 0))
	_, err = execute(t.Context(), &cobra.Command{SilenceErrors: true, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("read %d", loaded.Bytes[len(loaded.Bytes)-1])
	}})
	require.ErrorContains(t, err, "a file was truncated")
}
